import asyncio, re, sys
from tests.support.stages import *
from tests.support.screen import *
from textual.screen import ModalScreen
NEG=re.compile(r"\b(no|none|not|never|nothing|without|0 of|all|cannot|does not|only|missing|unused|off|any)\b", re.I)
async def main():
    seen={}
    names=list(recorded_hosts())
    async with screen_with_hosts(*names, size=(120,50)) as (screen,hosts):
        async def note(stage, where):
            await screen.settle()
            for row in screen.drawn():
                for part in re.split(r"[│╭╮╰╯]| {3,}", row):
                    part=" ".join(part.split())
                    if NEG.search(part): seen.setdefault(part,[]).append(f"{stage}:{where}")
        async def close():
            for _ in range(6):
                if isinstance(screen.app.screen, ModalScreen): await screen.press("escape")
        for stage in STAGES:
            for n in names[:1] if len(sys.argv)>1 else names:
                hosts[n].send(*items_of(n)[stage])
                await wait_until(screen, lambda: hosts[n].is_drained)
            await screen.settle()
            await wait_until(screen, lambda: not screen.nictop.hosts.pending)
            await screen.settle()
            for view in "1234567":
                await screen.press(view); await note(stage,view)
                if view=="1" and stage in ("links","machine","all"):
                    for _ in range(9):
                        await screen.press("down"); await note(stage,"1")
                        await screen.press("enter"); await note(stage,"detail")
                        await screen.press("c"); await note(stage,"connections"); await screen.press("escape","escape","escape")
                        await screen.press("1")
                for key in ("e","f","o","r","question_mark"):
                    before=screen.app.screen
                    await screen.press(key); await screen.settle()
                    if isinstance(screen.app.screen, ModalScreen):
                        await note(stage,view+key)
                        await close()
                    await screen.press(view) if not isinstance(screen.app.screen, ModalScreen) else None
    for part, where in seen.items(): print(part, "  <<<", " ".join(dict.fromkeys(where))[:150])
asyncio.run(main())
