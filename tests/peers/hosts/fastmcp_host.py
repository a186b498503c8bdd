"""FastMCP's client, which verifies nothing: python fastmcp_host.py URL REFUSED…"""
import asyncio
from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from fastmcp.skills.client import SkillsClientExtension
from walk import command, content, url, walk


class Host:
    def __init__(self, client):
        self.client = client

    async def list(self):
        return sorted((entry(skill) for skill in await self.client.list_skills()), key=lambda skill: skill["uri"])

    async def get(self, uri):
        return entry(await self.client.get_skill(uri))

    async def read(self, uri, _skill):
        return content(await self.client.read_resource(uri))


def entry(skill) -> dict:
    return skill.model_dump(mode="json", by_alias=True)


async def main():
    endpoint = StdioTransport(command, []) if command else url
    async with Client(endpoint, extensions=[SkillsClientExtension()]) as client:
        await walk(Host(client))


asyncio.run(main())
