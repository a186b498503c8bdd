//! The journal of the audit log: the file that says what was decided (design §6, §7).
//!
//! Imports `durable`, `error`. A frame holds the leaves of one batch and the checkpoint signed over all leaves up to them:
//!
//! | bytes | what |
//! | --- | --- |
//! | 4 | `PCJ1` |
//! | 8 | the index of its first leaf, big-endian like all numbers here |
//! | 4 | how many leaves |
//! | 4 | length of the body |
//! | 8 | the first bytes of SHA-256 over the 20 before |
//! | body | each leaf, then the checkpoint note, each with its length in 4 bytes before it |
//! | 32 | SHA-256 over `portcullis journal frame v1\n`, the 28 bytes of the head and the body |
//!
//! A frame is written with one flush, so that all of its leaves count or none.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use sha2::Digest as _;
use sha2::Sha256;

use super::error::Error;

const MAGIC: &[u8; 4] = b"PCJ1";
const HEAD: usize = 28;
const CHECK: usize = 32;

/// Bytes of a body; a bigger batch is refused before it is written.
pub(super) const MAX_BODY_BYTES: usize = 256 * 1024 * 1024;

/// From where a frame begins to the bytes of its first leaf.
pub(super) const FIRST_LEAF_AT: u64 = HEAD as u64 + BETWEEN_LEAVES;

/// From the end of one leaf to the bytes of the next.
pub(super) const BETWEEN_LEAVES: u64 = 4;

/// Bytes looked through at once for a frame after a bad one.
const SEARCH_BYTES: usize = 1024 * 1024;

/// One frame, read and checked against its own checksum.
#[derive(Debug)]
pub(super) struct Frame {
    /// The index of the first leaf.
    pub(super) first: u64,
    /// The bytes of each leaf.
    pub(super) leaves: Vec<Vec<u8>>,
    /// The checkpoint over all leaves up to these.
    pub(super) note: Vec<u8>,
}

/// Why there is no frame where one should be.
#[derive(Debug)]
pub(super) enum Flaw {
    /// The file ends before the frame does.
    Incomplete,
    /// It is not what was written.
    Damaged(&'static str),
    /// The file cannot be read.
    Unreadable(Error),
}

/// Encodes a batch whose leaves are each shorter than 2^32 bytes.
pub(super) fn encode(first: u64, leaves: &[Vec<u8>], note: &[u8]) -> Result<Vec<u8>, Error> {
    let mut body = Vec::new();
    for part in leaves.iter().map(Vec::as_slice).chain([note]) {
        body.extend_from_slice(&number(part.len())?.to_be_bytes());
        body.extend_from_slice(part);
    }
    if body.len() > MAX_BODY_BYTES {
        return Err(Error::Leaf {
            why: format!("the batch has over {MAX_BODY_BYTES} bytes"),
        });
    }
    let mut frame = Vec::with_capacity(HEAD + body.len() + CHECK);
    frame.extend_from_slice(MAGIC);
    frame.extend_from_slice(&first.to_be_bytes());
    frame.extend_from_slice(&number(leaves.len())?.to_be_bytes());
    frame.extend_from_slice(&number(body.len())?.to_be_bytes());
    let check = head_check(&frame);
    frame.extend_from_slice(&check);
    frame.extend_from_slice(&body);
    let check = frame_check(&frame);
    frame.extend_from_slice(&check);
    Ok(frame)
}

fn number(len: usize) -> Result<u32, Error> {
    u32::try_from(len).map_err(|_| Error::Leaf {
        why: format!("{len} is too much for one batch"),
    })
}

/// Reads the frame that begins at `at` in the first `len` bytes, and says where the next one begins.
pub(super) fn read(file: &File, at: u64, len: u64, first: u64) -> Result<(Frame, u64), Flaw> {
    let rest = len.saturating_sub(at);
    if rest < HEAD as u64 {
        return Err(Flaw::Incomplete);
    }
    let mut bytes = exactly(file, at, HEAD)?;
    let head = Head::parse(&bytes).ok_or(Flaw::Damaged("the head of its batch is not what was written"))?;
    if head.first != first {
        return Err(Flaw::Damaged("its batch has another index"));
    }
    let whole = HEAD + head.body + CHECK;
    if rest < whole as u64 {
        return Err(Flaw::Incomplete);
    }
    bytes.append(&mut exactly(file, at + HEAD as u64, whole - HEAD)?);
    let (checked, check) = bytes.split_at(whole - CHECK);
    if frame_check(checked) != check {
        return Err(Flaw::Damaged("its batch does not have its checksum"));
    }
    let frame = parts(&head, checked).ok_or(Flaw::Damaged("its batch has the wrong shape"))?;
    Ok((frame, at + whole as u64))
}

/// Says whether a frame begins anywhere after `from`: then what stands at `from` is no torn end.
pub(super) fn another_follows(file: &File, from: u64, len: u64) -> Result<bool, Flaw> {
    let mut at = from + 1;
    while at + HEAD as u64 <= len {
        let bytes = usize::try_from(len - at).unwrap_or(usize::MAX).min(SEARCH_BYTES);
        let window = exactly(file, at, bytes)?;
        if window.windows(HEAD).any(|head| Head::parse(head).is_some()) {
            return Ok(true);
        }
        at += (bytes - HEAD + 1) as u64;
    }
    Ok(false)
}

/// The numbers before a frame's body.
struct Head {
    first: u64,
    count: usize,
    body: usize,
}

impl Head {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let (magic, rest) = bytes.split_first_chunk::<4>()?;
        if magic != MAGIC {
            return None;
        }
        let (first, rest) = rest.split_first_chunk::<8>()?;
        let (count, rest) = rest.split_first_chunk::<4>()?;
        let (body, rest) = rest.split_first_chunk::<4>()?;
        let (check, _) = rest.split_first_chunk::<8>()?;
        if head_check(bytes.get(..HEAD - 8)?) != *check {
            return None;
        }
        let body = usize::try_from(u32::from_be_bytes(*body)).ok()?;
        Some(Self {
            first: u64::from_be_bytes(*first),
            count: usize::try_from(u32::from_be_bytes(*count)).ok()?,
            body: (body <= MAX_BODY_BYTES).then_some(body)?,
        })
    }
}

/// The leaves and the note in a frame that has its checksum.
fn parts(head: &Head, frame: &[u8]) -> Option<Frame> {
    let mut rest = frame.get(HEAD..)?;
    let mut leaves = Vec::new();
    for _ in 0..head.count {
        let (leaf, after) = part(rest)?;
        leaves.push(leaf.to_vec());
        rest = after;
    }
    let (note, rest) = part(rest)?;
    (rest.is_empty() && !leaves.is_empty()).then(|| Frame {
        first: head.first,
        leaves,
        note: note.to_vec(),
    })
}

fn part(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(usize::try_from(u32::from_be_bytes(*len)).ok()?)
}

fn exactly(file: &File, at: u64, len: usize) -> Result<Vec<u8>, Flaw> {
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, at)
        .map_err(|source| Flaw::Unreadable(Error::io("read", "log/journal", source)))?;
    Ok(bytes)
}

fn head_check(bytes: &[u8]) -> [u8; 8] {
    let hash: [u8; 32] = Sha256::digest(bytes).into();
    let [a, b, c, d, e, f, g, h, ..] = hash;
    [a, b, c, d, e, f, g, h]
}

fn frame_check(bytes: &[u8]) -> [u8; 32] {
    Sha256::new()
        .chain_update(b"portcullis journal frame v1\n")
        .chain_update(bytes)
        .finalize()
        .into()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn file(frames: &[&[u8]]) -> (File, u64) {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&frames.concat()).unwrap();
        let len = frames.iter().map(|frame| frame.len() as u64).sum();
        (file, len)
    }

    #[test]
    fn frames_follow_each_other() {
        let one = encode(0, &[b"a".to_vec(), b"".to_vec()], b"note 1").unwrap();
        let two = encode(2, &[b"ccc".to_vec()], b"note 2").unwrap();
        let (file, len) = file(&[&one, &two]);
        let (frame, next) = read(&file, 0, len, 0).unwrap();
        assert_eq!((frame.first, frame.note.as_slice()), (0, &b"note 1"[..]));
        assert_eq!(frame.leaves, [b"a".to_vec(), b"".to_vec()]);
        assert_eq!(exactly(&file, FIRST_LEAF_AT, 1).unwrap(), b"a");
        let (frame, end) = read(&file, next, len, 2).unwrap();
        assert_eq!((frame.first, end), (2, len));
        assert!(another_follows(&file, 0, len).unwrap());
        assert!(!another_follows(&file, next, len).unwrap());
    }

    #[test]
    fn every_flipped_byte_and_every_cut_is_noticed() {
        let good = encode(7, &[b"leaf".to_vec()], b"note").unwrap();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x20;
            let (file, len) = file(&[&bad]);
            assert!(
                matches!(read(&file, 0, len, 7), Err(Flaw::Damaged(_) | Flaw::Incomplete)),
                "{at}"
            );
            assert!(matches!(
                read(&file, 0, at as u64, 7),
                Err(Flaw::Incomplete | Flaw::Damaged(_))
            ));
        }
        let (file, len) = file(&[&good]);
        assert!(matches!(read(&file, 0, len, 8), Err(Flaw::Damaged(_))));
    }

    #[test]
    fn a_frame_is_found_across_the_edge_of_a_window() {
        let frame = encode(3, &[b"leaf".to_vec()], b"note").unwrap();
        for before in [SEARCH_BYTES - 10, SEARCH_BYTES + 1, SEARCH_BYTES + HEAD] {
            let (file, len) = file(&[&vec![0; before], &frame]);
            assert!(another_follows(&file, 0, len).unwrap(), "{before}");
        }
    }
}
