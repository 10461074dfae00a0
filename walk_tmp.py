import asyncio, sys
from importlib.resources import files
from nictop.cli.commands.demo import DEMO_FILE, DEMO_START_SECONDS, DEMO_NIC
from tests.support.replay_screen import screen_with_replay
async def main():
    path=files("nictop.recording").joinpath(DEMO_FILE)
    async with screen_with_replay(str(path),(80,24),start=DEMO_START_SECONDS,loop=True,nic=DEMO_NIC) as screen:
        print(screen.replay.playback.recording.begin, screen.replay.playback.recording.end, screen.replay.runs)
        keys = sys.argv[1]
        await screen.press(*keys[:1])
        for second in range(int(sys.argv[2])):
            await screen.advance_clock(1.0)
            screen.replay._tick()
            await screen.wait_until_shown()
            for key in keys:
                await screen.press(key); await screen.settle()
                body=screen.drawn()[2:-2]
                full=sum(any(c.isalnum() for c in row) for row in body)
                print(second, round(screen.replay.playback.now(),1), key, full, len(body))
                if second in map(int, sys.argv[3:]): print("\n".join(screen.drawn()))
asyncio.run(main())
