"""Takes every step that a host can take, and prints what it saw as one line of JSON: step -> {ok} or {error}.

A host has `list`, `get`, `read` and perhaps `directory`; `walk.mjs` is the same for hosts on Node.js.
"""
import base64, hashlib, json, sys

url, *refused = sys.argv[1:]
command = url.removeprefix("command:") if url.startswith("command:") else None
seen = {}


async def step(name, coroutine):
    try:
        seen[name] = {"ok": await coroutine}
        return seen[name]["ok"]
    except Exception as e:
        error = getattr(e, "error", e)
        data = getattr(error, "data", None)
        reason = data.get("dev.portcullis/reason") if isinstance(data, dict) else None
        seen[name] = {"error": {"code": getattr(error, "code", None), "reason": reason, "message": str(e)}}


async def walk(host):
    skills = await step("list", host.list()) or []
    for skill in skills:
        await step(f"get {skill['uri']}", host.get(skill["uri"]))
        for file in skill["resources"]:
            await step(f"read {file['uri']}", host.read(file["uri"], skill))
        if hasattr(host, "directory"):
            await directories(host, skill["uri"].removesuffix("/SKILL.md"))
    for uri in refused:
        await step(f"get {uri}", host.get(uri))
        await step(f"read {uri}", host.read(uri, None))
    print(json.dumps(seen))


async def directories(host, uri):
    for child in await step(f"directory {uri}", host.directory(uri)) or []:
        if child["mimeType"] == "inode/directory":
            await directories(host, child["uri"])


def digested(data: bytes) -> dict:
    """What a step says of a file's bytes."""
    return {"size": len(data), "digest": "sha256:" + hashlib.sha256(data).hexdigest()}


def content(items) -> dict:
    """What a step says of an answer to resources/read."""
    (item,) = items
    return digested(item.text.encode() if hasattr(item, "text") else base64.b64decode(item.blob))
