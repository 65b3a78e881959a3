//! Parses a manifest, and checks every rule that follows from it alone (spec/ztensor2.md §2, §3, §6.1).

use super::cbor::{Cursor, Key};
use super::error::malformed;
use super::footer::{FOOTER, LEAST, check_place};
use super::manifest::{Manifest, Object, ObjectRecord, PartRecord, ShardRecord};
use super::{ZTensor2Error, layout_rules, types};
use crate::files::ElementType;
use crate::ztensor::{Name, Span};

/// The most dimensions of an object.
const MAX_RANK: u64 = 64;
/// The longest name, in bytes.
const MAX_NAME: usize = 1024;
/// The longest name of a shard, in bytes.
const MAX_SHARD_NAME: usize = 64;

impl Manifest {
    /// Parses the bytes of a manifest that starts at `base` in a file whose footer starts at `blobs_end`.
    ///
    /// # Errors
    /// The rule of sections 1.3 to 6.1 that the manifest breaks.
    pub fn parse(cbor: Vec<u8>, base: u64, blobs_end: u64) -> Result<Self, ZTensor2Error> {
        let mut manifest = Self::default();
        let mut has_objects = false;
        let mut cursor = Cursor::new(&cbor, base);
        cursor.map(0, "manifest", &mut |cursor, key| match key.text {
            Some("attributes") => {
                manifest.attributes = Some(attributes(cursor, 1)?);
                Ok(())
            }
            Some("shards") => cursor.map(1, "shards", &mut |cursor, key| {
                manifest.shards.push(shard(cursor, &key)?);
                Ok(())
            }),
            Some("objects") => {
                has_objects = true;
                cursor.map(1, "objects", &mut |cursor, key| object(cursor, &key, &cbor, &mut manifest))
            }
            _ => cursor.skip(1),
        })?;
        cursor.check_end()?;
        if !has_objects {
            return Err(malformed("2.2", base, "the manifest has no field `objects`"));
        }
        manifest.base = base;
        manifest.cbor = cbor;
        let text = |span: Span| manifest.cbor.get(span.range()).unwrap_or_default();
        manifest.objects.sort_by(|a, b| text(a.name).cmp(text(b.name)));
        for object in manifest.objects() {
            layout_rules::check(&object)?;
        }
        check_blobs(&manifest, blobs_end)?;
        Ok(manifest)
    }
}

/// Checks a name, and returns where it is.
fn name(key: &Key<'_>, what: &str) -> Result<Span, ZTensor2Error> {
    let Some(text) = key.text else { return Err(malformed("2.5", key.at, format!("the name of {what} is not text"))) };
    if text.is_empty() || text.len() > MAX_NAME || text.contains('\0') {
        let problem = format!(
            "the name of {what} is {}, expected 1 to {MAX_NAME} bytes and no NUL, found {} bytes",
            Name::new(text),
            text.len()
        );
        return Err(malformed("2.5", key.at, problem));
    }
    Ok(key.span)
}

/// Passes over a map of attributes, and checks its names.
fn attributes(cursor: &mut Cursor<'_>, depth: usize) -> Result<Span, ZTensor2Error> {
    let start = cursor.position();
    cursor.map(depth, "attributes", &mut |cursor, key| {
        name(&key, "an attribute")?;
        cursor.skip(depth + 1)
    })?;
    Ok(Span { start, end: cursor.position() })
}

/// Returns the error of a field that is required and missing.
fn missing(at: u64, what: &str, field: &str, section: &'static str) -> ZTensor2Error {
    malformed(section, at, format!("{what} has no field `{field}`"))
}

fn shard(cursor: &mut Cursor<'_>, key: &Key<'_>) -> Result<ShardRecord, ZTensor2Error> {
    let Some(text) = key.text.filter(|text| is_shard_name(text)) else {
        let problem = format!(
            "the name of a shard is {}, expected 1 to {MAX_SHARD_NAME} of the characters A-Z a-z 0-9 . _ -, and no `.` first",
            Name::new(key.text.unwrap_or("no text"))
        );
        return Err(malformed("6.1", key.at, problem));
    };
    let (at, what) = (cursor.at(), format!("shard {}", Name::new(text)));
    let (mut size, mut digest) = (None, None);
    cursor.map(2, "shard", &mut |cursor, key| {
        match key.text {
            Some("size") => size = Some(cursor.unsigned("size")?),
            Some("digest") => digest = Some(digest_text(cursor)?),
            _ => cursor.skip(3)?,
        }
        Ok(())
    })?;
    let size = size.ok_or_else(|| missing(at, &what, "size", "6.1"))?;
    let digest = digest.ok_or_else(|| missing(at, &what, "digest", "6.1"))?;
    if size < LEAST {
        return Err(malformed("6.1", at, format!("{what} has {size} bytes, expected at least {LEAST}")));
    }
    Ok(ShardRecord { name: key.span, size, digest })
}

fn is_shard_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=MAX_SHARD_NAME).contains(&name.len()) && !name.starts_with('.') && name.bytes().all(is_allowed)
}

/// Reads the text of a digest: the name of an algorithm, and hexadecimal digits.
fn digest_text(cursor: &mut Cursor<'_>) -> Result<Span, ZTensor2Error> {
    let at = cursor.at();
    let (text, span) = cursor.text("digest")?;
    let is_algorithm =
        |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let is_hex = |hex: &str| !hex.is_empty() && hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if text.split_once(':').is_some_and(|(name, hex)| is_algorithm(name) && is_hex(hex)) {
        return Ok(span);
    }
    let problem =
        format!("the digest {}, expected an algorithm, a colon, and hexadecimal digits in lower case", Name::new(text));
    Err(malformed("4.3", at, problem))
}

fn object(cursor: &mut Cursor<'_>, key: &Key<'_>, cbor: &[u8], manifest: &mut Manifest) -> Result<(), ZTensor2Error> {
    let name = name(key, "an object")?;
    let (at, position, what) =
        (cursor.at(), cursor.position(), format!("object {}", Name::new(key.text.unwrap_or_default())));
    let (mut dimensions, mut layout, mut attributes_at, mut parts) = (None, None, None, None);
    cursor.map(2, "object", &mut |cursor, key| {
        match key.text {
            Some("shape") => dimensions = Some(shape(cursor, &what, &mut manifest.dimensions)?),
            Some("layout") => layout = Some(cursor.text("layout")?.1),
            Some("attributes") => attributes_at = Some(attributes(cursor, 3)?),
            Some("parts") => {
                let first = manifest.parts.len();
                cursor.map(3, "parts", &mut |cursor, key| {
                    let record = part(cursor, &key, &what, manifest, cbor)?;
                    manifest.parts.push(record);
                    Ok(())
                })?;
                let text = |span: Span| cbor.get(span.range()).unwrap_or_default();
                let added = manifest.parts.get_mut(first..).unwrap_or_default();
                added.sort_by(|a, b| text(a.name).cmp(text(b.name)));
                parts = Some(Span { start: first as u32, end: manifest.parts.len() as u32 });
            }
            _ => cursor.skip(3)?,
        }
        Ok(())
    })?;
    let dimensions = dimensions.ok_or_else(|| missing(at, &what, "shape", "2.3"))?;
    let layout = layout.ok_or_else(|| missing(at, &what, "layout", "2.3"))?;
    let parts: Span = parts.ok_or_else(|| missing(at, &what, "parts", "2.3"))?;
    if parts.is_empty() {
        return Err(malformed("2.3", at, format!("{what} has no parts")));
    }
    manifest.objects.push(ObjectRecord { name, layout, attributes: attributes_at, dimensions, parts, position });
    Ok(())
}

/// Reads the dimensions of an object. Their product must fit in 64 bits.
fn shape(cursor: &mut Cursor<'_>, what: &str, dimensions: &mut Vec<usize>) -> Result<Span, ZTensor2Error> {
    let (at, start) = (cursor.at(), dimensions.len());
    let rank = cursor.array("shape")?;
    if rank > MAX_RANK {
        return Err(malformed("2.3", at, format!("{what} has {rank} dimensions, expected at most {MAX_RANK}")));
    }
    let mut product = Some(1_u64);
    for _ in 0..rank {
        let size = cursor.unsigned("shape")?;
        product = product.and_then(|product| product.checked_mul(size));
        let too_large = || malformed("2.3", at, format!("{what} has more elements than 64 bits can count"));
        dimensions.push(usize::try_from(size).map_err(|_| too_large())?);
        if product.is_none() {
            return Err(too_large());
        }
    }
    Ok(Span { start: start as u32, end: dimensions.len() as u32 })
}

fn part(
    cursor: &mut Cursor<'_>,
    key: &Key<'_>,
    object: &str,
    manifest: &Manifest,
    cbor: &[u8],
) -> Result<PartRecord, ZTensor2Error> {
    let name = name(key, "a part")?;
    let what = || format!("part {} of {object}", Name::new(key.text.unwrap_or_default()));
    let (at, position) = (cursor.at(), cursor.position());
    let (mut dtype, mut logical, mut blob, mut shard) = (None, None, None, None);
    let (mut encoding, mut decoded, mut digest) = (None, None, None);
    cursor.map(4, "part", &mut |cursor, key| {
        match key.text {
            Some("dtype") => {
                let at = cursor.at();
                let found = cursor.text("dtype")?.0;
                let unknown = || malformed("3.1", at, format!("{} has the unknown dtype {}", what(), Name::new(found)));
                dtype = Some(types::storage_type(found).ok_or_else(unknown)?);
            }
            Some("type") => logical = Some(cursor.text("type")?.1),
            Some("blob") => blob = Some(blob_place(cursor, &what)?),
            Some("shard") => shard = Some((cursor.at(), cursor.text("shard")?.1)),
            Some("encoding") => encoding = Some(cursor.text("encoding")?.1),
            Some("decoded_length") => decoded = Some(cursor.unsigned("decoded_length")?),
            Some("digest") => digest = Some(digest_text(cursor)?),
            _ => cursor.skip(5)?,
        }
        Ok(())
    })?;
    let dtype: ElementType = dtype.ok_or_else(|| missing(at, &what(), "dtype", "2.4"))?;
    let (offset, length) = blob.ok_or_else(|| missing(at, &what(), "blob", "2.4"))?;
    if encoding.is_some() != decoded.is_some() {
        let problem = format!("{} has one of `encoding` and `decoded_length` without the other", what());
        return Err(malformed("2.4", at, problem));
    }
    let text = |span: Span| cbor.get(span.range()).unwrap_or_default();
    let logical_name = logical.map(|span| String::from_utf8_lossy(text(span)));
    if let Some((_, expected)) = logical_name.as_deref().and_then(types::logical_type)
        && expected != dtype
    {
        let problem = format!(
            "{} has the type {} over {dtype}, expected {expected}",
            what(),
            Name::new(logical_name.as_deref().unwrap_or_default())
        );
        return Err(malformed("3.2", at, problem));
    }
    let shard = match shard {
        None => None,
        Some((at, found)) => {
            // Keys are in order: the table of shards came before the objects, and shorter names before longer ones.
            let order = |span: Span| (text(span).len(), text(span));
            let position = manifest.shards.binary_search_by(|shard| order(shard.name).cmp(&order(found))).ok();
            let unknown = || malformed("2.4", at, format!("{} is in a shard that the manifest does not list", what()));
            Some(position.ok_or_else(unknown)? as u32)
        }
    };
    Ok(PartRecord {
        name,
        dtype,
        logical,
        shard,
        offset,
        length,
        encoding,
        decoded: decoded.unwrap_or(length),
        digest,
        position,
    })
}

/// Reads where a blob starts, and how long it is.
fn blob_place(cursor: &mut Cursor<'_>, what: &dyn Fn() -> String) -> Result<(u64, u64), ZTensor2Error> {
    let at = cursor.at();
    match cursor.array("blob")? {
        2 => Ok((cursor.unsigned("blob")?, cursor.unsigned("blob")?)),
        found => Err(malformed("2.4", at, format!("`blob` of {} has {found} numbers, expected 2", what()))),
    }
}

/// Checks that blobs lie inside their file, and that two of them are the same bytes or share none.
fn check_blobs(manifest: &Manifest, blobs_end: u64) -> Result<(), ZTensor2Error> {
    let own = (None, manifest.base, manifest.cbor.len() as u64, manifest.base);
    let mut blobs = vec![own];
    for part in manifest.objects().flat_map(|object: Object<'_>| object.parts()) {
        let (shard, stored) = (part.shard(), part.record());
        let (offset, length) = (stored.offset, stored.length);
        check_place(offset, part.at(), &part.place())?;
        let end = match shard.and_then(|shard| manifest.shards.get(shard)) {
            Some(shard) => shard.size.saturating_sub(FOOTER as u64),
            None => blobs_end,
        };
        if offset.checked_add(length).is_none_or(|last| last > end) {
            let problem = format!(
                "{} has {length} bytes from byte {offset} on, expected them to end before the footer at byte {end}",
                part.place()
            );
            return Err(malformed("1.3", part.at(), problem));
        }
        if length > 0 {
            blobs.push((shard, offset, length, part.at()));
        }
    }
    blobs.sort_unstable();
    blobs.dedup_by_key(|(shard, offset, length, _)| (*shard, *offset, *length));
    for pair in blobs.windows(2) {
        let [(shard, offset, length, _), (next_shard, next, _, at)] = pair else { continue };
        if shard == next_shard && offset + length > *next {
            let problem = format!(
                "a blob starts at byte {next}, inside of the {length} bytes from byte {offset} on, and is not the same bytes"
            );
            return Err(malformed("1.4", *at, problem));
        }
    }
    Ok(())
}
