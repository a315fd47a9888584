r"""The named characters of roff, such as ``\(em`` and ``\[u2014]``."""

from __future__ import annotations

import re
import unicodedata

# Each name is followed by its character.
_TABLE = r"""
!=≠ %0‰ 'AÁ 'CĆ 'EÉ 'IÍ 'OÓ 'UÚ 'YÝ 'aá 'cć 'eé 'ií 'oó 'uú 'yý **∗ *AΑ *BΒ *CΞ *DΔ *EΕ *FΦ *GΓ *HΘ *IΙ *KΚ *LΛ
*MΜ *NΝ *OΟ *PΠ *QΨ *RΡ *SΣ *TΤ *UΥ *WΩ *XΧ *YΗ *ZΖ *aα *bβ *cξ *dδ *eε *fϕ *gγ *hθ *iι *kκ *lλ *mμ *nν *oο *pπ
*qψ *rρ *sσ *tτ *uυ *wω *xχ *yη *zζ +-± +eϵ +fφ +hϑ +pϖ ,CÇ ,cç -+∓ ->→ -DÐ -hℏ .iı .jȷ /LŁ /OØ /_∠ /lł /oø 12½
14¼ 18⅛ 34¾ 38⅜ 3d∴ 58⅝ 78⅞ :AÄ :EË :IÏ :OÖ :UÜ :YŸ :aä :eë :iï :oö :uü :yÿ <-← <<≪ <=≤ <>↔ ==≡ =~≅ >=≥ >>≫ AEÆ
AN∧ Ahℵ Bq„ CL♣ CR↵ Cs¤ DI♦ Do$ Eu€ Fc» Fnƒ Fo« HE♥ IJĲ Imℑ OEŒ OK✓ OR∨ Ofª Omº Po£ Reℜ S1¹ S2² S3³ SP♠ Sdð TPÞ
Tpþ Ye¥ ^AÂ ^EÊ ^IÎ ^OÔ ^UÛ ^aâ ^eê ^iî ^oô ^uû `AÀ `EÈ `IÌ `OÒ `UÙ `aà `eè `iì `oò `uù a"˝ a-¯ a.˙ a^^ aa´ ab˘
ac¸ ad¨ aeæ ahˇ an— ao˚ ap∼ aq' at@ a~~ ba| bb¦ bq‚ br│ bu• bv⎪ c*⊗ c+⊕ ca∩ ci○ coproduct∐ co© cq’ ct¢ cu∪ dA⇓
da↓ dd‡ de° dg† di÷ dq" em— en– eq= es∅ eu€ f/⁄ fa∀ fc› fm′ fo‹ ga` gr∇ hA⇔ ha^ hbarℏ ho˛ hy- ib⊆ if∞ ijĳ
integral∫ ip⊇ is∫ lA⇐ lB[ lC{ la⟨ lb⎩ lc⌈ lf⌊ lh☜ lk⎨ lq“ lt⎧ lz◊ mcµ md⋅ mi− mo∈ mu× nb⊄ nc⊅ ne≢ nm∉ no¬ oAÅ
oaå oeœ oq‘ or| pc· pd∂ pl+ pp⊥ product∏ ps¶ pt∝ r!¡ r?¿ rA⇒ rB] rC} ra⟩ rb⎭ rc⌉ rf⌋ rg® rh☞ rk⎬ rn‾ rq” rs\ rt⎫
ru_ sb⊂ sc§ sd″ sh# sl/ sp⊃ sqrt√ sq□ sr√ ssß st∋ sum∑ t+-± tdi÷ te∃ tf∴ ti~ tmu× tm™ tno¬ tsς uA⇑ ua↑ ul_ vA⇕
vSŠ vZŽ va↕ vsš vzž wp℘ |=≃ ~=≈ ~AÃ ~NÑ ~OÕ ~aã ~nñ ~oõ ~~≈
"""
_CHARACTERS = {entry[:-1]: entry[-1] for entry in _TABLE.split()} | {
    "ff": "ff",
    "fi": "fi",
    "fl": "fl",
    "Fi": "ffi",
    "Fl": "ffl",
}
_ACCENTS = {
    **dict.fromkeys(("aa", "'"), "\u0301"),
    **dict.fromkeys(("ga", "`"), "\u0300"),
    **dict.fromkeys(("ad", ":"), "\u0308"),
    **dict.fromkeys(("a^", "^"), "\u0302"),
    **dict.fromkeys(("a~", "~"), "\u0303"),
    **dict.fromkeys(("ac", ","), "\u0327"),
    **{"ao": "\u030a", "ah": "\u030c", "ab": "\u0306", "a-": "\u0304", "a.": "\u0307", 'a"': "\u030b", "ho": "\u0328"},
}
_CODE_POINTS = re.compile(r"u([0-9A-Fa-f]{4,6}(?:_[0-9A-Fa-f]{4,6})*)")
_NUMBER = re.compile(r"char(\d{1,3})")


def character(name: str) -> str:
    """The character of a name; the name itself where there is none, so that nothing is lost."""
    if name in _CHARACTERS:
        return _CHARACTERS[name]
    if points := _CODE_POINTS.fullmatch(name):
        codes = [int(code, 16) for code in points[1].split("_")]
        return unicodedata.normalize("NFC", "".join(chr(code) for code in codes if 0 < code < 0x110000))
    if number := _NUMBER.fullmatch(name):
        return chr(int(number[1]))
    base, *accents = name.split(" ")
    if accents and all(accent in _ACCENTS for accent in accents):
        return unicodedata.normalize(
            "NFC", _CHARACTERS.get(base, base) + "".join(_ACCENTS[accent] for accent in accents)
        )
    return name
