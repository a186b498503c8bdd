"""The official Python SDK's own session, which knows nothing of skills: python python_sdk.py URL REFUSED…

ERA=modern or legacy.
"""
import asyncio, os
from mcp import ClientSession, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import Request
from pydantic import TypeAdapter
from walk import command, content, url, walk


class Host:
    def __init__(self, session):
        self.session = session

    async def list(self):
        return await self.pages("skills/list", "skills")

    async def get(self, uri):
        return (await self.ask("skills/get", uri=uri))["skill"]

    async def read(self, uri, _skill):
        return content((await self.session.read_resource(uri)).contents)

    async def directory(self, uri):
        return await self.pages("resources/directory/read", "resources", uri=uri)

    async def pages(self, method, member, **params):
        items = []
        while True:
            page = await self.ask(method, **params)
            items += page[member]
            if "nextCursor" not in page:
                return sorted(items, key=lambda item: item["uri"])
            params["cursor"] = page["nextCursor"]

    async def ask(self, method, **params):
        return await self.session.send_request(Request[dict, str](method=method, params=params), TypeAdapter(dict))


async def main():
    endpoint = stdio_client(StdioServerParameters(command=command)) if command else streamable_http_client(url)
    skills = {"io.modelcontextprotocol/skills": {}}
    async with endpoint as streams, ClientSession(*streams, extensions=skills) as session:
        await (session.initialize() if os.environ["ERA"] == "legacy" else session.discover())
        await walk(Host(session))


asyncio.run(main())
