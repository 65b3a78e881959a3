//! Compares all digests of a file with its bytes, and checks the rules for elements (spec/ztensor2.md §3.3, §4.3, §5).

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use super::digest::{Digest, Hasher};
use super::layout::Layout;
use super::manifest::{Object, Part};
use super::pieces::PIECE;
use super::reader::{Reader, compare};
use super::{ZTensor2Error, content, sparse};
use crate::context::{CancelToken, Cancelled};
use crate::parallel::{available_threads, par_map};

/// The result of [`Reader::verify_some`].
#[derive(Debug, Default)]
pub struct Verified {
    /// The number of digests that match: those of parts, and those of the files of shards.
    pub n_verified: usize,
    /// The number of parts without a digest.
    pub n_without: usize,
    /// The number of parts whose digest has an algorithm that is not known, so that it was not compared.
    pub n_unknown: usize,
    /// The parts that cannot be decoded, because their encoding is not known, in words.
    pub unchecked: Vec<String>,
    /// The errors.
    pub failures: Vec<ZTensor2Error>,
}

/// Parts with the same decoded bytes, which are read once.
struct Blob<'m> {
    parts: Vec<(usize, Part<'m>, Option<Digest>)>,
}

/// What reading a blob found.
#[derive(Default)]
struct Found {
    digests: Vec<Digest>,
    failures: Vec<(usize, ZTensor2Error)>,
}

impl Reader {
    /// Reads all parts of the objects whose names `is_wanted` accepts, on all cores, and compares their digests; also those of shards. Checks
    /// every rule for elements.
    ///
    /// # Errors
    /// The work was cancelled.
    pub fn verify_some(
        &self,
        is_wanted: impl Fn(&str) -> bool,
        cancel_token: &CancelToken,
    ) -> Result<Verified, Cancelled> {
        let mut verified = Verified::default();
        let mut failures = Vec::new();
        let mut blobs: BTreeMap<_, Blob<'_>> = BTreeMap::new();
        let objects: Vec<Object<'_>> = self.objects().filter(|object| is_wanted(object.name())).collect();
        let parts = objects.iter().flat_map(Object::parts);
        for (index, part) in parts.enumerate() {
            if let Some(unknown) = part.unknown_encoding() {
                let what = format!(
                    "{} has the encoding {}, which is not known",
                    part.place(),
                    crate::ztensor::Name::new(unknown)
                );
                verified.unchecked.push(what);
                continue;
            }
            let digest = match part.digest() {
                Ok(digest) => digest,
                Err(error) => {
                    failures.push((index, error));
                    continue;
                }
            };
            match digest {
                None if part.unknown_digest().is_some() => verified.n_unknown += 1,
                None => verified.n_without += 1,
                Some(_) => {}
            }
            let stored = part.stored();
            let key = (part.shard(), stored.start, stored.end, part.encoding().is_some(), part.decoded_length());
            blobs.entry(key).or_insert_with(|| Blob { parts: Vec::new() }).parts.push((index, part, digest));
        }
        let mut blobs: Vec<Blob<'_>> = blobs.into_values().collect();
        // The largest come first, so that none of them runs alone at the end.
        blobs.sort_by_key(|blob| std::cmp::Reverse(blob.parts.first().map_or(0, |(_, part, _)| part.decoded_length())));
        let read = |at: usize| blobs.get(at).map(|blob| self.read_blob(blob, cancel_token)).unwrap_or_default();
        let found = par_map(blobs.len(), available_threads(), || (), |(), at| Ok::<_, Cancelled>(read(at)))?;
        cancel_token.check()?;
        for (blob, found) in blobs.iter().zip(found) {
            failures.extend(found.failures);
            for (index, part, digest) in &blob.parts {
                let Some(expected) = digest else { continue };
                let of_its_algorithm =
                    |digest: &&Digest| std::mem::discriminant(*digest) == std::mem::discriminant(expected);
                match found.digests.iter().find(of_its_algorithm).map(|found| compare(part, *expected, *found)) {
                    Some(Ok(())) => verified.n_verified += 1,
                    Some(Err(error)) => failures.push((*index, error)),
                    // The bytes could not be read, which is an error of its own.
                    None => {}
                }
            }
        }
        failures.sort_by_key(|(index, _)| *index);
        verified.failures = failures.into_iter().map(|(_, error)| error).collect();
        // Damaged bytes break these rules too. That they are damaged is the better answer.
        if verified.failures.is_empty() {
            for object in &objects {
                cancel_token.check()?;
                verified.failures.extend(self.check_elements(object).err());
            }
        }
        let (n_shards, of_shards) = self.shards().verify(self.manifest(), cancel_token);
        verified.n_verified += n_shards;
        verified.failures.extend(of_shards);
        cancel_token.check()?;
        Ok(verified)
    }

    /// Checks the rules for the elements of a sparse object.
    fn check_elements(&self, object: &Object<'_>) -> Result<(), ZTensor2Error> {
        if object.parts().any(|part| part.unknown_encoding().is_some() || part.unknown_type().is_some()) {
            return Ok(());
        }
        match object.layout() {
            Layout::SparseCsr => sparse::csr_parts(self, object).map(drop),
            Layout::SparseCoo => sparse::coo_parts(self, object).map(drop),
            Layout::Dense | Layout::Other(_) => Ok(()),
        }
    }

    /// Reads a blob once, with all the digests that its parts need. Work that is cancelled returns any digests.
    fn read_blob(&self, blob: &Blob<'_>, cancel_token: &CancelToken) -> Found {
        let Some((first_index, first, _)) = blob.parts.first() else { return Found::default() };
        let digests = || blob.parts.iter().filter_map(|(_, _, digest)| *digest);
        let mut hashers = Vec::new();
        hashers.extend(digests().find(|digest| matches!(digest, Digest::Xxh3(_))).map(|digest| Hasher::like(&digest)));
        hashers
            .extend(digests().find(|digest| matches!(digest, Digest::Sha256(_))).map(|digest| Hasher::like(&digest)));
        // One part of each type is checked: other parts of it have the same bytes.
        let mut types = Vec::new();
        let mut checked: Vec<&(usize, Part<'_>, Option<Digest>)> = Vec::new();
        for entry in &blob.parts {
            if !types.contains(&entry.1.element_type()) || entry.1.element_type().is_some_and(|dtype| dtype.bits() < 8)
            {
                types.push(entry.1.element_type());
                checked.push(entry);
            }
        }
        let mut failures: Vec<(usize, ZTensor2Error)> = Vec::new();
        let mut position = 0;
        let read = self.decode(first, PIECE, &mut |bytes| {
            hashers.iter_mut().for_each(|hasher| hasher.update(bytes));
            checked.retain(|(index, part, _)| match content::check(part, bytes, position) {
                Ok(()) => true,
                Err(error) => {
                    failures.push((*index, error));
                    false
                }
            });
            position += bytes.len() as u64;
            if cancel_token.is_cancelled() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        if let Err(error) = read {
            failures.push((*first_index, error));
            return Found { digests: Vec::new(), failures };
        }
        let digests: Vec<Digest> = hashers.into_iter().map(Hasher::finish).collect();
        // Of damaged bytes, the mismatch is the answer.
        if blob.parts.iter().any(|(_, _, expected)| expected.is_some_and(|expected| !digests.contains(&expected))) {
            failures.clear();
        }
        Found { digests, failures }
    }
}
