//! What is in the files.

use bytes::Bytes;
use md5::Md5;
use rand::Rng as _;
use sha2::{Digest, Sha256, Sha512};

/// One file.
#[derive(Clone, Debug)]
pub(crate) struct File {
    pub(crate) content: Bytes,
    pub(crate) media_type: &'static str,
    /// Tells contents apart (RFC 9110 section 8.8.3).
    pub(crate) etag: String,
    /// The image that it is the checksum of.
    pub(crate) checksum_of: Option<String>,
}

impl File {
    fn new(content: Bytes, media_type: &'static str, checksum_of: Option<String>) -> Self {
        let digest = hex(&Sha256::digest(&content));
        let etag = format!("\"{}\"", &digest[..32]);
        Self { content, media_type, etag, checksum_of }
    }

    /// The same file as it would be if its image had been another: as long, and wrong.
    pub(crate) fn wrong(&self) -> Self {
        let flipped = |byte: u8| match byte {
            b'0' => b'f',
            b'1'..=b'9' | b'b'..=b'f' => byte - 1,
            b'a' => b'9',
            other => other,
        };
        let digest = self.content.iter().take_while(|byte| **byte != b' ').count();
        let (digest, name) = self.content.split_at(digest);
        let content: Vec<u8> = digest.iter().copied().map(flipped).chain(name.iter().copied()).collect();
        Self::new(content.into(), self.media_type, self.checksum_of.clone())
    }
}

/// An image and its checksum files, by name.
pub(crate) fn image(name: &str, size: u64) -> Vec<(String, File)> {
    let content = bytes(name, size);
    // A checksum file names the file as it lies beside it.
    let base = name.rsplit('/').next().unwrap_or(name);
    let sums = [
        ("md5sum", hex(&Md5::digest(&content))),
        ("sha256sum", hex(&Sha256::digest(&content))),
        ("sha512sum", hex(&Sha512::digest(&content))),
    ];
    let sums = sums.map(|(ending, digest)| {
        let line = format!("{digest}  {base}\n");
        (format!("{name}.{ending}"), File::new(line.into(), "text/plain", Some(name.to_owned())))
    });
    [(name.to_owned(), File::new(content, "application/octet-stream", None))]
        .into_iter()
        .chain(sums)
        .collect()
}

/// Bytes that look random and follow from name and size: the same image is the same in every cache, world and seed.
fn bytes(name: &str, size: u64) -> Bytes {
    let size_in_memory = usize::try_from(size).expect("an image fits into memory");
    let mut content = vec![0; size_in_memory];
    wire::Seed(size).stream("image", name).fill_bytes(&mut content);
    content.into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_follows_from_its_name_and_size() {
        assert_eq!(bytes("a", 100), bytes("a", 100));
        assert_ne!(bytes("a", 100), bytes("b", 100));
        assert_ne!(bytes("a", 100), bytes("a", 101)[..100]);
        assert_eq!(bytes("a", 0).len(), 0);
    }

    #[test]
    fn a_wrong_checksum_differs_in_every_digit_and_nowhere_else() {
        for (_, file) in image("images/linux.qcow2", 10).into_iter().skip(1) {
            let wrong = file.wrong();
            let (right, wrong) = (file.content.split_at(32), wrong.content.split_at(32));
            assert!(right.0.iter().zip(wrong.0).all(|(a, b)| a != b && b.is_ascii_hexdigit()));
            assert!(wrong.1.ends_with(b"  linux.qcow2\n"));
            assert_eq!(right.1.len(), wrong.1.len());
        }
    }
}
