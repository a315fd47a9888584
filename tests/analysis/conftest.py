from __future__ import annotations

from browsers import browser as browser
