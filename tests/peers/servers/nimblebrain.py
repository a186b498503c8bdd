"""Skills on nimblebrain-bundle-sdk: python nimblebrain.py PORT SKILLS"""
import sys
from pathlib import Path
from fastmcp import FastMCP
from nimblebrain_bundle_sdk import SkillDefinition, SkillsExtension

port, folder = int(sys.argv[1]), Path(sys.argv[2])
files = sorted(folder.rglob("SKILL.md"))
skills = [SkillDefinition.from_directory(file.parent, path=file.parent.relative_to(folder).as_posix()) for file in files]
mcp = FastMCP("nimblebrain")
mcp.add_extension(SkillsExtension(skills))
mcp.run(show_banner=False, transport="http", host="127.0.0.1", port=port)
