//! Images: text in their metadata, and bytes behind their end.

use super::check::Check;
use super::phrases;
use super::remark::Sheet;
use super::remark::shown;

/// Characters from which text in an image is told; the names of programs and their sites are shorter.
const LONG_TEXT: usize = 80;

/// Looks at the metadata of an image, if it is a PNG, JPEG, GIF or WebP.
pub(super) fn inspect(bytes: &[u8], sheet: &mut Sheet) {
    let tail = match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', rest @ ..] => png(rest, sheet),
        [0xff, 0xd8, rest @ ..] => jpeg(rest, sheet),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', rest @ ..] => gif(rest, sheet),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', rest @ ..] => webp(rest, sheet),
        _ => &[],
    };
    if !tail.iter().all(|byte| matches!(byte, 0 | b'\n' | b'\r')) {
        sheet.add(Check::ImageTail, None, || {
            format!("{} bytes: {}", tail.len(), shown(&String::from_utf8_lossy(head(tail))))
        });
    }
}

/// The beginning of `bytes`, enough to show.
fn head(bytes: &[u8]) -> &[u8] {
    bytes.get(..40).unwrap_or(bytes)
}

/// Chunks of a PNG up to its end; what follows that.
fn png<'b>(mut rest: &'b [u8], sheet: &mut Sheet) -> &'b [u8] {
    while let Some((size, behind)) = rest
        .split_first_chunk()
        .map(|(size, behind)| (u32::from_be_bytes(*size), behind))
    {
        let Some((kind, behind)) = behind.split_first_chunk::<4>() else {
            break;
        };
        let Some((body, behind)) = behind.split_at_checked(size as usize) else {
            break;
        };
        match kind {
            b"tEXt" | b"iTXt" | b"eXIf" => text("PNG text", body, sheet),
            b"zTXt" => compressed(body, sheet),
            b"IEND" => return behind.get(4..).unwrap_or_default(),
            _ => {}
        }
        rest = behind.get(4..).unwrap_or_default();
    }
    &[]
}

/// Text that is there, though only a decoder could show it.
fn compressed(body: &[u8], sheet: &mut Sheet) {
    if body.len() >= LONG_TEXT {
        let keyword = body.split(|&byte| byte == 0).next().unwrap_or_default();
        sheet.add(Check::ImageText, None, || {
            let keyword = String::from_utf8_lossy(head(keyword));
            format!("PNG text, compressed, {} bytes: {}", body.len(), shown(&keyword))
        });
    }
}

/// Segments of a JPEG up to its picture. What follows that is the picture, and often another one.
fn jpeg<'b>(mut rest: &'b [u8], sheet: &mut Sheet) -> &'b [u8] {
    while let [0xff, kind, high, low, behind @ ..] = rest {
        let size = usize::from(u16::from_be_bytes([*high, *low])).saturating_sub(2);
        let Some((body, behind)) = behind.split_at_checked(size) else {
            break;
        };
        match kind {
            0xfe => text("JPEG comment", body, sheet),
            0xe1 => text("EXIF or XMP", body, sheet),
            0xed => text("JPEG captions", body, sheet),
            0xda => break,
            _ => {}
        }
        rest = behind;
    }
    &[]
}

/// Blocks of a GIF up to its trailer; what follows that.
fn gif<'b>(rest: &'b [u8], sheet: &mut Sheet) -> &'b [u8] {
    let Some((screen, mut rest)) = rest.split_at_checked(7) else {
        return &[];
    };
    rest = rest.get(colours(screen.get(4))..).unwrap_or_default();
    loop {
        rest = match rest {
            [0x21, kind, behind @ ..] => {
                let (body, behind) = sub_blocks(behind);
                if matches!(kind, 0xfe | 0x01 | 0xff) {
                    text("GIF comment", body, sheet);
                }
                behind
            }
            [0x2c, image @ ..] => {
                let data = 9 + colours(image.get(8)) + 1;
                sub_blocks(image.get(data..).unwrap_or_default()).1
            }
            [0x3b, behind @ ..] => return behind,
            _ => return &[],
        };
    }
}

/// Bytes of the colour table that a GIF's `flags` announce.
fn colours(flags: Option<&u8>) -> usize {
    match flags {
        Some(flags) if flags & 0x80 != 0 => 3 << ((flags & 7) + 1),
        Some(_) | None => 0,
    }
}

/// A GIF's sub-blocks, their lengths among them, and what follows.
fn sub_blocks(bytes: &[u8]) -> (&[u8], &[u8]) {
    let mut end = 0;
    while let Some(&size) = bytes.get(end).filter(|&&size| size != 0) {
        end += 1 + usize::from(size);
    }
    let body = bytes.get(..end).unwrap_or(bytes);
    (body, bytes.get(end + 1..).unwrap_or_default())
}

/// Chunks of a WebP.
fn webp<'b>(mut rest: &'b [u8], sheet: &mut Sheet) -> &'b [u8] {
    while let Some((kind, behind)) = rest.split_first_chunk::<4>() {
        let Some((size, behind)) = behind.split_first_chunk() else {
            break;
        };
        let size = u32::from_le_bytes(*size) as usize;
        let Some((body, behind)) = behind.split_at_checked(size) else {
            break;
        };
        if matches!(kind, b"EXIF" | b"XMP ") {
            text("EXIF or XMP", body, sheet);
        }
        rest = behind.get(size % 2..).unwrap_or_default();
    }
    &[]
}

/// Tells of the longest text in `body` if it is long, and of words for a model however short it is.
fn text(kind: &str, body: &[u8], sheet: &mut Sheet) {
    let body = String::from_utf8_lossy(body);
    let is_control = |char: char| (char.is_control() && !char.is_whitespace()) || char == '\u{fffd}';
    let longest = body.split(is_control).max_by_key(|run| run.len()).unwrap_or_default();
    if longest.len() >= LONG_TEXT {
        sheet.add(Check::ImageText, None, || {
            format!("{kind}, {} characters: {}", longest.chars().count(), shown(longest))
        });
    }
    phrases::inspect_words(&body, sheet);
}
