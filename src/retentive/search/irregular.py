"""Irregular forms of English words: a search for `buy` also finds `bought`, although no stemmer relates the two.

Forms that are usually a different word or a name, such as `rose`, `bore` and `ground`, are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

_FORMS = """\
awake awoke awoken/beat beaten/become became/begin began begun/bend bent/bite bit bitten/bleed bled/blow blew blown
break broke broken/breed bred/bring brought/build built/burn burnt/buy bought/catch caught/choose chose chosen
cling clung/come came/creep crept/deal dealt/dig dug/draw drew drawn/dream dreamt/drink drank drunk/drive drove driven
eat ate eaten/fall fell fallen/feed fed/feel felt/fight fought/find found/flee fled/fling flung/fly flew flown
forbid forbade forbidden/forget forgot forgotten/forgive forgave forgiven/freeze froze frozen/get got gotten
give gave given/go went gone/grow grew grown/hang hung/hear heard/hide hid hidden/hold held/keep kept/kneel knelt
know knew known/lay laid/lead led/lean leant/leap leapt/learn learnt/leave left/lend lent/light lit/lose lost
make made/mean meant/meet met/pay paid/ride rode ridden/ring rang rung/rise risen/run ran/say said/see saw seen
seek sought/sell sold/send sent/sew sewn/shake shook shaken/shine shone/shoot shot/show shown/shrink shrank shrunk
sing sang sung/sink sank sunk/sit sat/sleep slept/slide slid/smell smelt/sow sown/speak spoke spoken/speed sped
spell spelt/spend spent/spill spilt/spin spun/spit spat/spoil spoilt/spring sprang sprung/stand stood
steal stole stolen/stick stuck/sting stung/stink stank/stride strode/strike struck/strive strove/swear swore sworn
sweep swept/swell swollen/swim swam swum/swing swung/take took taken/teach taught/tear tore torn/tell told
think thought/throw threw thrown/understand understood/wake woke woken/wear wore worn/weave wove woven/weep wept
win won/withdraw withdrew withdrawn/write wrote written/child children/foot feet/goose geese/half halves/knife knives
life lives/loaf loaves/man men/mouse mice/person people/shelf shelves/thief thieves/tooth teeth/wife wives/wolf wolves
woman women"""


@cache
def _families() -> dict[str, tuple[str, ...]]:
    families = [tuple(each.split()) for each in _FORMS.replace("\n", "/").split("/")]
    return {form: family for family in families for form in family}


def irregular_forms(word: str, languages: Sequence[str]) -> tuple[str, ...]:
    """Return the folded word and, if English is one of the languages, its irregular forms."""
    return (word, *_families().get(word, ())) if "english" in languages else (word,)
