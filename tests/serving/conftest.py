from __future__ import annotations

from open_report import browser as browser
