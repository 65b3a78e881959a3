# A server on the loopback interface.
# part: quick
# requires:
import asyncio


async def serve(reader, writer):
    writer.write(str(int(await reader.readline()) * 2).encode() + b"\n")
    await writer.drain()
    writer.close()


async def run():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(b"21\n")
    answer = int(await reader.readline())
    writer.close()
    server.close()
    process = await asyncio.create_subprocess_exec("echo", "5", stdout=asyncio.subprocess.PIPE)
    printed, _ = await process.communicate()
    return {"numbers": [answer, int(printed)]}
