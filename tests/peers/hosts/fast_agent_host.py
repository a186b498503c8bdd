"""The fast-agent host: its registry of a server's skills, and its installer, which checks sizes, digests and frontmatter:
python fast_agent_host.py URL REFUSED…"""
import asyncio, os, tempfile
from pathlib import Path
from fast_agent.config import MCPServerSettings, MCPSettings, Settings
from fast_agent.context import initialize_context
from fast_agent.mcp.mcp_aggregator import MCPAggregator
from fast_agent.skills.mcp_registry import install_mcp_registry_skill
from walk import command, content, digested, url, walk


class Host:
    def __init__(self, aggregator, folder):
        self.aggregator, self.folder = aggregator, folder
        self.registered, self.installed = {}, {}

    async def list(self):
        registries = await self.aggregator.list_mcp_skill_registries()
        self.registered = {skill.uri: skill for registry in registries for skill in registry.skills}
        return [{"uri": uri, "frontmatter": skill.frontmatter, "resources": [file.model_dump(mode="json") for file in skill.resources]}
                for uri, skill in sorted(self.registered.items())]

    async def get(self, uri):
        return (await self.aggregator.get_skill(uri, "origin")).skill.model_dump(mode="json", by_alias=True)

    async def read(self, uri, skill):
        if skill is None:
            return content((await self.aggregator.get_resource(uri, server_name="origin")).contents)
        root = skill["uri"].removesuffix("/SKILL.md")
        return digested((await self.install(skill["uri"]) / uri.removeprefix(root + "/")).read_bytes())

    async def install(self, uri) -> Path:
        """Installs a skill when its first file is asked for, each into a folder of its own."""
        if uri not in self.installed:
            root = self.folder / str(len(self.installed))
            self.installed[uri] = await install_mcp_registry_skill(self.aggregator, self.registered[uri], destination_root=root)
        return self.installed[uri]

    async def directory(self, uri):
        children, cursor = [], None
        while True:
            page = await self.aggregator.read_directory(uri, server_name="origin", cursor=cursor)
            children += (child.model_dump(mode="json", by_alias=True) for child in page.resources)
            cursor = page.next_cursor
            if cursor is None:
                return sorted(children, key=lambda child: child["uri"])


async def main(folder):
    # It appends "/mcp" to any other path, unless there is a query.
    address = url if url.endswith("/mcp") else f"{url}?as-it-is"
    way = {"transport": "stdio", "command": command, "args": []} if command else {"transport": "http", "url": address}
    server = MCPServerSettings(name="origin", protocol_mode=os.environ.get("ERA", "auto"), **way)
    context = await initialize_context(Settings(mcp=MCPSettings(servers={"origin": server})), store_globally=True)
    async with MCPAggregator(["origin"], connection_persistence=True, context=context) as aggregator:
        await aggregator.load_servers()
        await walk(Host(aggregator, folder))


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    asyncio.run(main(Path(folder)))
