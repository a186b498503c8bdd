#!/usr/bin/env python3
"""A second verifier of the audit log, written from the public specifications alone.

Sources: C2SP signed-note, tlog-checkpoint, tlog-tiles, tlog-proof, tlog-cosignature (c2sp.org), RFC 6962 section 2.1 and
RFC 8032 section 5.1. Standard library only; it shares no code and no vectors of its own with the program it checks.

    verify.py log <folder or URL of …/log> --key VKEY [--earlier VKEY ...] [--witness VKEY ...]
    verify.py proof <file> --key VKEY [--witness VKEY ...]
    verify.py vectors

Exit code 0: everything holds. 1: it does not, and standard error says why. 2: wrong usage.
"""

import argparse
import base64
import hashlib
import json
import pathlib
import re
import sys
import urllib.error
import urllib.request


class Wrong(Exception):
    """Something does not hold."""


def require(holds, why):
    if not holds:
        raise Wrong(why)


# --- RFC 8032, section 5.1: Ed25519 verification -------------------------------------------------------------------

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
SQRT_M1 = pow(2, (P - 1) // 4, P)


def point_add(a, b):
    # Extended homogeneous coordinates, section 5.1.4.
    x = (a[1] - a[0]) * (b[1] - b[0]) % P
    y = (a[1] + a[0]) * (b[1] + b[0]) % P
    z, t = 2 * a[3] * b[3] * D % P, 2 * a[2] * b[2] % P
    e, f, g, h = y - x, t - z, t + z, y + x
    return (e * f % P, g * h % P, f * g % P, e * h % P)


def point_mul(scalar, point):
    result = (0, 1, 1, 0)
    while scalar > 0:
        if scalar & 1:
            result = point_add(result, point)
        point = point_add(point, point)
        scalar >>= 1
    return result


def point_equal(a, b):
    return (a[0] * b[2] - b[0] * a[2]) % P == 0 and (a[1] * b[2] - b[1] * a[2]) % P == 0


def point_decompress(data):
    # Section 5.1.3.
    y = int.from_bytes(data, "little")
    sign, y = y >> 255, y & ((1 << 255) - 1)
    if y >= P:
        return None
    x2 = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    if x2 == 0:
        return None if sign else (0, y, 1, 0)
    x = pow(x2, (P + 3) // 8, P)
    if (x * x - x2) % P != 0:
        x = x * SQRT_M1 % P
    if (x * x - x2) % P != 0:
        return None
    if x & 1 != sign:
        x = P - x
    return (x, y, 1, x * y % P)


BASE = point_decompress((4 * pow(5, P - 2, P) % P).to_bytes(32, "little"))


def ed25519_verify(public, message, signature):
    # Section 5.1.7.
    if len(public) != 32 or len(signature) != 64:
        return False
    a, r = point_decompress(public), point_decompress(signature[:32])
    s = int.from_bytes(signature[32:], "little")
    if a is None or r is None or s >= L:
        return False
    h = int.from_bytes(hashlib.sha512(signature[:32] + public + message).digest(), "little") % L
    return point_equal(point_mul(s, BASE), point_add(r, point_mul(h, a)))


# --- C2SP signed-note, tlog-checkpoint, tlog-cosignature -----------------------------------------------------------

LOG, WITNESS = 0x01, 0x04


def strict_base64(text):
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError:
        raise Wrong(f"not base64: {text[:40]!r}") from None
    require(base64.b64encode(data).decode() == text, "not the one spelling in base64")
    return data


class Key:
    """A verifier key: <name>+<hex key id>+<base64 of type and public key>."""

    def __init__(self, vkey):
        self.text = vkey
        self.name, ident, material = vkey.split("+", 2)
        data = strict_base64(material)
        self.kind, self.public = data[0], data[1:]
        self.id = hashlib.sha256(self.name.encode() + b"\n" + data).digest()[:4]
        require(self.id.hex() == ident, f"the key id of {vkey} is not that of its name and key")
        require(self.kind in (LOG, WITNESS) and len(self.public) == 32, f"{vkey} is no Ed25519 key")

    def check(self, text, signature):
        """Checks a signature over the text of a note; gives the time of a cosignature."""
        if self.kind == LOG:
            require(ed25519_verify(self.public, text, signature), f"a signature of {self.name} is wrong")
            return None
        require(len(signature) == 72, f"a cosignature of {self.name} has the wrong length")
        time = int.from_bytes(signature[:8], "big")
        require(0 < time < 2**63, f"a cosignature of {self.name} has no time")
        message = f"cosignature/v1\ntime {time}\n".encode() + text
        require(ed25519_verify(self.public, message, signature[8:]), f"a cosignature of {self.name} is wrong")
        return time


class Note:
    """A text with signatures."""

    def __init__(self, data):
        try:
            whole = data.decode("utf-8")
        except UnicodeDecodeError:
            raise Wrong("a note is not UTF-8") from None
        require(not re.search("[\x00-\x09\x0b-\x1f]", whole), "a note has control characters")
        text, separator, lines = whole.rpartition("\n\n")
        require(separator and lines.endswith("\n"), "a note has no signatures")
        self.text = (text + "\n").encode()
        self.signatures = []
        for line in lines[:-1].split("\n"):
            match = re.fullmatch("\u2014 ([^ +\\s]+) ([A-Za-z0-9+/=]+)", line)
            require(match, f"not a signature line: {line!r}")
            data = strict_base64(match[2])
            require(len(data) > 4, "a signature is too short")
            self.signatures.append((match[1], data[:4], data[4:]))

    def verify(self, key):
        """Checks every signature that names the key; there must be one. Gives the time of a cosignature."""
        own = [signature for name, ident, signature in self.signatures if (name, ident) == (key.name, key.id)]
        require(own, f"not signed by {key.name} with key {key.id.hex()}")
        return [key.check(self.text, signature) for signature in own][0]


class Checkpoint:
    """A note whose text is an origin, a size and a root."""

    def __init__(self, data):
        self.note = Note(data)
        lines = self.note.text.decode().split("\n")
        require(len(lines) >= 4 and lines[0] and lines[-1] == "", "not a checkpoint")
        require(re.fullmatch("0|[1-9][0-9]{0,18}", lines[1]), f"not a size: {lines[1]!r}")
        require(all(lines[3:-1]), "an extension line is empty")
        self.origin, self.size, self.root = lines[0], int(lines[1]), strict_base64(lines[2])
        require(len(self.root) == 32, "a root has not 32 bytes")

    def verify(self, key):
        require(self.origin == key.name, f"the checkpoint is of {self.origin}, not of {key.name}")
        self.note.verify(key)


# --- RFC 6962, section 2.1: Merkle trees ---------------------------------------------------------------------------


def leaf_hash(data):
    return hashlib.sha256(b"\x00" + data).digest()


def node_hash(left, right):
    return hashlib.sha256(b"\x01" + left + right).digest()


def split(n):
    """The largest power of two smaller than n."""
    return 1 << ((n - 1).bit_length() - 1)


class Tree:
    """Roots over the hashes of leaves; hashes of whole subtrees are kept."""

    def __init__(self, leaves):
        self.levels = [list(leaves)]
        while len(self.levels[-1]) > 1:
            below = self.levels[-1]
            self.levels.append([node_hash(below[i], below[i + 1]) for i in range(0, len(below) - 1, 2)])

    def range_root(self, low, high):
        """MTH(D[low:high]) where low is a multiple of a power of two not less than high - low."""
        n = high - low
        if n == 0:
            return hashlib.sha256(b"").digest()
        if n & (n - 1) == 0:
            level = n.bit_length() - 1
            return self.levels[level][low >> level]
        k = split(n)
        return node_hash(self.range_root(low, low + k), self.range_root(low + k, high))

    def root(self, size):
        return self.range_root(0, size)


def root_from_inclusion(index, size, leaf, path):
    """Section 2.1.1, run backwards: the root that a path leads to."""

    def run(low, high, rest):
        if high - low == 1:
            require(not rest, "the proof is too long")
            return leaf
        require(rest, "the proof is too short")
        k = split(high - low)
        if index < low + k:
            return node_hash(run(low, low + k, rest[:-1]), rest[-1])
        return node_hash(rest[-1], run(low + k, high, rest[:-1]))

    require(index < size, f"leaf {index} is beyond the {size} leaves of the checkpoint")
    return run(0, size, path)


# --- C2SP tlog-tiles ------------------------------------------------------------------------------------------------


def tile_path(level, index, width):
    parts = [f"{index % 1000:03}"]
    while index >= 1000:
        index //= 1000
        parts.insert(0, f"x{index % 1000:03}")
    return f"tile/{level}/" + "/".join(parts) + ("" if width == 256 else f".p/{width}")


class Source:
    """Where a log lies: a folder, or a URL."""

    def __init__(self, place):
        self.place = place.rstrip("/")
        self.is_url = place.startswith(("http://", "https://"))

    def read(self, path):
        try:
            if self.is_url:
                opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
                with opener.open(f"{self.place}/{path}", timeout=30) as answer:
                    return answer.read()
            return (pathlib.Path(self.place) / path).read_bytes()
        except (OSError, urllib.error.URLError) as error:
            raise Wrong(f"{path} cannot be read: {error}") from None


def widths(count):
    """The width of each tile over so many hashes."""
    return [256] * (count // 256) + ([count % 256] if count % 256 else [])


def read_entries(source, size):
    """All entries, from their bundles."""
    entries = []
    for index, width in enumerate(widths(size)):
        path = tile_path("entries", index, width)
        bundle, at = source.read(path), 0
        for _ in range(width):
            require(at + 2 <= len(bundle), f"{path} is cut short")
            length = int.from_bytes(bundle[at : at + 2], "big")
            require(at + 2 + length <= len(bundle), f"{path} is cut short")
            entries.append(bundle[at + 2 : at + 2 + length])
            at += 2 + length
        require(at == len(bundle), f"{path} has more than its entries")
    return entries


def check_hash_tiles(source, tree, size):
    """Each tile of each level has the hashes of the tree."""
    level, count = 0, size
    while count > 0:
        for index, width in enumerate(widths(count)):
            path, span = tile_path(level, index, width), 256**level
            first = index * 256
            expected = b"".join(
                tree.range_root((first + at) * span, (first + at + 1) * span) for at in range(width)
            )
            require(source.read(path) == expected, f"{path} is not what the leaves of the log make")
        level, count = level + 1, count // 256


# --- The leaves of this log ----------------------------------------------------------------------------------------


def canonical(value):
    """Canonical JSON: members by their names, no blanks, only what must be escaped."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def parse_leaf(index, data):
    def once(pairs):
        require(len({name for name, _ in pairs}) == len(pairs), f"leaf {index} has a member twice")
        return dict(pairs)

    try:
        leaf = json.loads(data, object_pairs_hook=once)
    except ValueError:
        raise Wrong(f"leaf {index} is not JSON") from None
    require(isinstance(leaf, dict) and leaf.get("v") == 1 and isinstance(leaf.get("action"), str), f"leaf {index} is no leaf")
    require(canonical(leaf) == data, f"leaf {index} is not in canonical form")
    return leaf


# What is about a skill names it by label and URI; the others name no `uri`.
def check_chains(leaves):
    last = {}
    for index, leaf in enumerate(leaves):
        expected = None
        if "uri" in leaf:
            skill = (leaf["label"], leaf["uri"])
            expected = last.get(skill)
            last[skill] = index
        require(leaf.get("prev") == expected, f"leaf {index} names {leaf.get('prev')} as the one before it, not {expected}")


def check_keys(leaves, key, earlier):
    """Each rotation goes on from the key before it, and the last one leads to the key given."""
    rotations = [(index, leaf) for index, leaf in enumerate(leaves) if leaf["action"] == "key-rotated"]
    for (index, leaf), (_, after) in zip(rotations, rotations[1:]):
        require(leaf["to"] == after["from"], f"the rotation at leaf {index} is not gone on from")
    if rotations:
        require(rotations[-1][1]["to"] == key.text, "the last rotation does not lead to the key given")
    chain = [leaf["from"] for _, leaf in rotations]
    for vkey in earlier:
        require(vkey in chain, f"{vkey} never handed over to another key")


def verify_log(place, key, earlier, witnesses):
    source = Source(place)
    checkpoint = Checkpoint(source.read("checkpoint"))
    checkpoint.verify(key)
    for witness in witnesses:
        cosigned = checkpoint
        if (witness.name, witness.id) not in [(name, ident) for name, ident, _ in checkpoint.note.signatures]:
            cosigned = Checkpoint(source.read("cosigned"))
        cosigned.note.verify(witness)
    entries = read_entries(source, checkpoint.size)
    tree = Tree([leaf_hash(entry) for entry in entries])
    require(tree.root(checkpoint.size) == checkpoint.root, "the leaves do not make the root of the checkpoint")
    check_hash_tiles(source, tree, checkpoint.size)
    leaves = [parse_leaf(index, entry) for index, entry in enumerate(entries)]
    check_chains(leaves)
    check_keys(leaves, key, earlier)
    return f"{len(leaves)} leaves of {checkpoint.origin}"


# --- C2SP tlog-proof -----------------------------------------------------------------------------------------------


def verify_proof(path, key, witnesses):
    data = pathlib.Path(path).read_bytes()
    head, separator, note = data.partition(b"\n\n")
    require(separator, "the proof has no checkpoint")
    lines = head.decode("ascii", "replace").split("\n")
    require(lines.pop(0) == "c2sp.org/tlog-proof@v1", "not a tlog-proof")
    require(lines and lines[0].startswith("extra "), "the proof does not have its leaf")
    leaf = strict_base64(lines.pop(0)[len("extra ") :])
    match = re.fullmatch("index (0|[1-9][0-9]{0,18})", lines.pop(0) if lines else "")
    require(match, "the proof has no index")
    hashes = [strict_base64(line) for line in lines]
    require(all(len(value) == 32 for value in hashes), "a hash has not 32 bytes")
    checkpoint = Checkpoint(note)
    checkpoint.verify(key)
    for witness in witnesses:
        checkpoint.note.verify(witness)
    index = int(match[1])
    root = root_from_inclusion(index, checkpoint.size, leaf_hash(leaf), hashes)
    require(root == checkpoint.root, "the leaf is not under the checkpoint")
    action = parse_leaf(index, leaf)["action"]
    return f"leaf {index} ({action}) is under the checkpoint of {checkpoint.size} leaves"


# --- Published vectors ---------------------------------------------------------------------------------------------

# RFC 8032, section 7.1, TEST 1 to 3: public key, message, signature.
ED25519 = [
    (
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46b"
        "d25bf5f0595bbe24655141438e7a100b",
    ),
    (
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c"
        "387b2eaeb4302aeeb00d291612bb0c00",
    ),
    (
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc659"
        "4a7c15e9716ed28dc027beceea1ec40a",
    ),
]

# Notes of C2SP signed-note and of Go's golang.org/x/mod/sumdb/note: key, note.
NOTES = [
    (
        "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k",
        "This is an example message.\n\n\u2014 example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAl"
        "TgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=\n",
    ),
    (
        "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
        "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n\n"
        "\u2014 PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n",
    ),
]

# The inputs and roots that implementations of RFC 6962 share.
INPUTS = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]


def must_fail(check, *arguments):
    try:
        check(*arguments)
    except Wrong:
        return
    raise Wrong(f"{check.__name__} let pass what is wrong")


def verify_vectors():
    for public, message, signature in ED25519:
        public, message, signature = bytes.fromhex(public), bytes.fromhex(message), bytes.fromhex(signature)
        require(ed25519_verify(public, message, signature), "a vector of RFC 8032 does not verify")
        require(not ed25519_verify(public, message + b"x", signature), "another message verifies")
        require(not ed25519_verify(public, message, signature[:-1] + b"\x7f"), "another signature verifies")
    for vkey, text in NOTES:
        Note(text.encode()).verify(Key(vkey))
        must_fail(Note(text.replace("e", "a", 1).encode()).verify, Key(vkey))
    hashes = [leaf_hash(bytes.fromhex(data)) for data in INPUTS]
    for size, root in enumerate(ROOTS, 1):
        require(Tree(hashes).root(size) == bytes.fromhex(root), f"the root over {size} inputs is another one")
    require(Tree([]).root(0) == hashlib.sha256(b"").digest(), "the root over nothing is another one")
    for index, expected in [(1234067, "tile/1/x001/x234/067"), (0, "tile/1/000"), (273, "tile/1/273")]:
        require(tile_path(1, index, 256) == expected, f"the path of tile {index} is another one")
    return f"{len(ED25519)} signatures, {len(NOTES)} notes, {len(ROOTS)} roots"


def main():
    parser = argparse.ArgumentParser(description="A second verifier of the audit log.")
    commands = parser.add_subparsers(dest="command", required=True)
    log, proof = commands.add_parser("log"), commands.add_parser("proof")
    commands.add_parser("vectors")
    for command in (log, proof):
        command.add_argument("place")
        command.add_argument("--key", required=True)
        command.add_argument("--witness", action="append", default=[])
    log.add_argument("--earlier", action="append", default=[])
    given = parser.parse_args()
    try:
        if given.command == "vectors":
            found = verify_vectors()
        else:
            key, witnesses = Key(given.key), [Key(witness) for witness in given.witness]
            if given.command == "log":
                found = verify_log(given.place, key, given.earlier, witnesses)
            else:
                found = verify_proof(given.place, key, witnesses)
    except Wrong as why:
        print(f"wrong: {why}", file=sys.stderr)
        return 1
    print(f"verified: {found}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
