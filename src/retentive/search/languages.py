"""Words of languages: function words, which queries ignore, irregular forms of English words, and dates.

The languages of a store are detected by their function words. The English list also has a few verbs that are common in
questions about memories: "when did Ann tell me", "what happened to". A search for `buy` also finds `bought`, although
no stemmer relates the two; forms that usually are another word or a name, such as `rose` and `ground`, are left out.
A search for `May 7` finds `2023-05-07` and `07.05.2023`, because all dates get tokens of one form.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache

_WORDS = {
    "english": """a about above after again against all am an and any are aren as at be because been before being below
between both but by can could couldn d did didn do does doesn doing don down during each few for from further had hadn
has hasn have haven having he her here hers herself him himself his how i if in into is isn it its itself just ll m me
more most my myself no nor not of off on once only or other our ours ourselves out over own re s same she should
shouldn so some such t than that the their theirs them themselves then there these they this those through to too
under until up ve very was wasn we were weren what when where which while who whom why will with won would wouldn you
your yours yourself yourselves
tell told say says said mention mentioned happen happens happened get got""",
    "german": """aber alle allem allen aller alles als also am an ander andere anderem anderen anderer anderes auch auf
aus bei bin bis bist da damit dann das dass dein deine dem den denn der des dich die dies diese diesem diesen dieser
dieses dir doch dort du durch ein eine einem einen einer eines einige er es etwas euch euer für gegen hab habe haben
hat hatte hatten hier hin hinter ich ihm ihn ihnen ihr ihre ihrem ihren ihrer im in indem ins ist ja jede jedem jeden
jeder jedes jene kann kein keine keinem keinen keiner können könnte man manche mein meine meinem meinen meiner mich
mir mit muss musste nach nicht nichts noch nun nur ob oder ohne sehr sein seine seinem seinen seiner selbst sich sie
sind so solche soll sollte sondern sonst über um und uns unser unsere unter viel vom von vor während war waren warst
warum was weg weil weiter welche welchem welchen welcher welches wem wen wenn wer werde werden wie wieder will wir
wird wirst wo wofür woher wohin wollen wollte worüber würde würden wurde wurden zu zum zur zwar zwischen""",
    "french": """a à ai aient ait as au aucun aura aurait aux avaient avait avec avez avoir avons c ce ceci cela celle
ces cet cette ceux chez comme comment d dans de des donc dont du elle elles en encore entre es est et étaient était
été être eu eux faut fut il ils j je l la là le les leur leurs lui m ma mais me même mes moi mon n ne ni nos notre
nous on ont or ou où par pas peut plus pour pourquoi pu qu quand que quel quelle quelles quels qui quoi s sa sans se
sera ses si soit son sont sous sur t ta te tes toi ton tous tout toute toutes tu un une vers voici vos votre vous y""",
    "spanish": """a adónde al algo algunas algunos ante antes aquí así aún aunque bajo bien cada como cómo con contra
cual cuál cuáles cuando cuándo cuánto cuántos cuántas de del desde donde dónde dos e el él ella ellas ellos en entre
era eran es esa esas ese eso esos esta está estaba están estar estas este esto estos fue fueron ha había habían han
hasta hay la las le les lo los más me mi mí mis mucho muchos muy nada ni no nos nosotros nuestra nuestro o os otra
otras otro otros para pero poco por porque qué que quien quién quiénes se sea ser si sí sido sin sobre son su sus
también tan tanto te tener ti tiene tienen todo todos tu tú tus un una uno unos usted y ya yo""",
    "italian": """a ad agli ai al alla alle allo anche c che chi ci come con contro cosa cui da dagli dai dal dalla
dalle de dei del della delle dello di dove e è ed era erano essere fra gli ha hai hanno ho i il in io l la le lei li
lo loro lui ma mi mia mio ne negli nei nel nella nelle noi non nostro o per perché più quale quando quanto quella
quelle quelli quello questa queste questi questo se sei si sia sono sta su sua sue sugli sui sul sulla suo te ti tra
tu tutti tutto un una uno vi voi""",
    "portuguese": """a à ao aos aquela aquele aquilo as às até com como da das de dela dele deles depois do dos e é
ela elas ele eles em entre era eram essa esse esta está estava este eu foi foram há isso isto já lhe lhes mais mas me
mesmo meu minha muito na nas não nem no nos nós num numa o onde os ou para pela pelas pelo pelos por porque qual
quando quanto que quem são se sem ser seu seus só sua suas também te tem têm tinha tu um uma você vocês""",
    "dutch": """aan al alles als altijd andere ben bij daar dan dat de der deze die dit doch doen door dus een en er
ge geen had heb hebben heeft hem het hier hij hoe hun iemand iets ik in is ja je kan kon maar me meer men met mij
mijn moet na naar niet niets nog nu of om omdat ons ook op over te tegen toch toen tot uit uw van veel voor waar
waarom wanneer want waren was wat we wel werd wie wij wil worden zal ze zelf zich zij zijn zo zonder zou""",
    "swedish": """alla allt att av blev bli blir de dem den denna deras dess det detta dig din dina ditt du där efter
ej eller en er ett från för ha hade han hans har henne hennes hon honom hur här i icke inom inte jag ju kan kunde med
mellan men mig min mina mitt mot mycket ni nu när någon något några och om oss på samma sedan sig sin sina sitta sitt
skulle så sådan till under upp ut utan vad var vara varför varit varje vars vart vem vi vid vilka vilken vilket är
även över""",
    "russian": """а без более бы был была были было быть в вам вас весь во вот все всего всех вы где да даже для до
его ее если есть ещё еще же за здесь и из или им их к как какая какой когда кого кто куда ли мне может мы на над надо
нас не него нее нет ни них но ну о об он она они оно от очень по под почему при с сам свою себя со так также такой
там те тебя тем то того тоже только том тот ты у уже хотя чего чем что чтобы эта эти этого этой этом этот эту я""",
}


@cache
def stop_words(language: str) -> frozenset[str]:
    """Return the stop words of a language, such as `the` and `of`, folded like the words of a query.

    The result is empty if there is no list for the language.
    """
    return frozenset(_WORDS.get(language, "").split())


LATIN = tuple(language for language in _WORDS if language != "russian")
"""Languages in Latin script that can be detected."""


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


_FAMILIES = {form: each.split() for each in _FORMS.replace("\n", "/").split("/") for form in each.split()}


def irregular_forms(word: str, languages: Sequence[str]) -> Sequence[str]:
    """Return the folded word and, if English is one of the languages, its irregular forms."""
    return [word, *_FAMILIES.get(word, ())] if "english" in languages else [word]


_MONTH_NAMES = """january february march april may june july august september october november december
jan feb mar apr mai jun jul aug sep oct nov dec
januar februar märz april mai juni juli august september oktober november dezember
jänner feber mrz apr mayo juin juil août sept okt nov dez
janvier février mars avril mai juin juillet aout septembre octobre novembre décembre
enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre
gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre
janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro
januari februari maart april mei juni juli augustus september oktober november december
января февраля марта апреля мая июня июля августа сентября октября ноября декабря"""
_MONTHS = {
    form: number
    for row in _MONTH_NAMES.splitlines()
    for number, name in enumerate(row.split(), 1)
    for form in (name, name.title(), name.upper())
}
_YEARS = frozenset(map(str, range(1000, 3000)))
_MONTH_SIGN, _DAY_SIGN, _YEAR_SIGN = ("月", "월"), ("日", "일"), ("年", "년")
_MARKS_OF_DATES = _MONTHS.keys() | _YEARS
_CONNECTING = frozenset({"of", "the", "de", "del", "d"})
_DAY = re.compile(r"([0-9]{1,2})(?:st|nd|rd|th|er|o|T[0-9]+Z?)?")


def dates(words: Sequence[str]) -> Iterator[tuple[int, int, list[str]]]:
    """Yield the dates among the words of a text: the first and the last word of each, and its tokens.

    The tokens are, the most exact first, `§20230507`, `§202305` and `§0507`. No word of a text equals one.
    """
    for at in [at for at, word in enumerate(words) if word in _MARKS_OF_DATES or word[0] in "月월"]:
        near = [*[""] * (3 - at), *words[max(at - 3, 0) : at + 6], *[""] * 6]  # with the word itself at 3
        found: list[
            tuple[int, int, str, int, int]
        ] = []  # position in `near` of its first and last word; year, month, day
        if words[at] in _MONTHS:  # `7 May 2023`, `May 7, 2023`, `May 2023`
            first = 1 if near[2] in _CONNECTING else 2
            last = next(number for number in range(4, 7) if near[number] not in _CONNECTING or number == 6)
            day, after = _number(near[first]), _number(near[last])
            first, last, day = (first, last, day) if day else (3, last + 1, after) if after else (3, last, 0)
            year = near[last] if near[last] in _YEARS else ""
            found.append((first, last if year else max(last - 1, 3), year, _MONTHS[words[at]], day))
        elif words[at].startswith(_MONTH_SIGN):  # `2023年5月7日`
            day = _number(near[4]) if near[5].startswith(_DAY_SIGN) else 0
            year = near[0] if near[1].startswith(_YEAR_SIGN) and near[0] in _YEARS else ""
            found.append((0 if year else 2, 5 if day else 3, year, _number(near[2]), day))
        else:  # `2023-05-07`, `07.05.2023` or, with the month first, `05/17/2023`
            two = _number(near[1]), _number(near[2])
            found += [(3, 5, words[at], _number(near[4]), _number(near[5]))] if _number(near[5]) else []
            found += [(1, 3, words[at], *(two if two[1] > 12 else two[::-1]))] if two[0] else []
        for first, last, year, month, day in found:
            if 1 <= month <= 12 and day <= 31 and (day or year):
                of_year = [f"{month:02}{day:02}"] if day else []
                dated = [*(year + each for each in of_year), f"{year}{month:02}"] if year else []
                yield at + first - 3, at + last - 3, ["§" + each for each in (*dated, *of_year)]


def _number(word: str) -> int:
    """Return a number of one or two digits, without an ending such as `th` or `o` (from `º`); 0 for any other."""
    match = _DAY.fullmatch(word)
    return int(match[1]) if match else 0
