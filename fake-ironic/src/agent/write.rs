//! Writing an image to the disk, as the agent's `write_image` step does.
//!
//! The image is downloaded in pieces and its digest computed on the way. An image that must be converted is checked
//! before it is written; a raw one is written while it comes, so that a wrong one is found out when the disk is full
//! of it. A failed download or a wrong digest is tried again some times.

use std::time::Duration;

use http::{Method, Request, StatusCode, Uri};
use serde_json::Value;
use sha2::Digest as _;
use wire::http::{Client, Timeouts};

use super::command::Commands;
use crate::driver::requests::{Progress, Requests};

/// How often an image is downloaded at most.
const TRIES: u32 = 10;
/// Pause between two downloads.
const PAUSE: Duration = Duration::from_secs(10);
/// How long the image's server may take for a connection, and for each piece.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Why an image was not written, in the agent's words.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error(
        "Error downloading image: Download of image {id} failed: URL: {url}; time: {seconds} seconds. Error: {reason}"
    )]
    Download { id: String, url: String, seconds: u64, reason: String },
    #[error(
        "Error verifying image checksum: Image failed to verify against checksum. location: {location}; image ID: {id}; image checksum: {expected}; verification checksum: {found}"
    )]
    Checksum { location: String, id: String, expected: String, found: String },
    #[error("Command execution failed: {0}")]
    Request(String),
}

/// The image that Ironic wants written.
struct Image {
    id: String,
    urls: Vec<String>,
    /// Whether it is written while it is downloaded.
    streamed: bool,
    expected: Expected,
}

/// The digest that the image must have, or where that is written.
struct Expected {
    algorithm: Option<Algorithm>,
    value: String,
}

/// How the expected digest is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Algorithm {
    Md5,
    Sha256,
    Sha512,
}

impl Algorithm {
    fn named(name: &str) -> Option<Self> {
        match name {
            "md5" => Some(Self::Md5),
            "sha256" => Some(Self::Sha256),
            "sha512" => Some(Self::Sha512),
            _ => None,
        }
    }

    /// By the length of a digest in hexadecimal digits.
    fn of(digest: &str) -> Option<Self> {
        match digest.len() {
            32 => Some(Self::Md5),
            64 => Some(Self::Sha256),
            128 => Some(Self::Sha512),
            _ => None,
        }
    }
}

/// The digests of what was downloaded.
struct Digests {
    sha256: sha2::Sha256,
    other: Other,
}

enum Other {
    None,
    Md5(md5::Md5),
    Sha512(sha2::Sha512),
}

impl Digests {
    fn new(algorithm: Algorithm) -> Self {
        let other = match algorithm {
            Algorithm::Md5 => Other::Md5(md5::Md5::new()),
            Algorithm::Sha256 => Other::None,
            Algorithm::Sha512 => Other::Sha512(sha2::Sha512::new()),
        };
        Self { sha256: sha2::Sha256::new(), other }
    }

    fn update(&mut self, piece: &[u8]) {
        self.sha256.update(piece);
        match &mut self.other {
            Other::None => {}
            Other::Md5(digest) => digest.update(piece),
            Other::Sha512(digest) => digest.update(piece),
        }
    }

    /// The SHA-256 that names the content, and the digest to compare.
    fn finish(self) -> (String, String) {
        let sha256 = hexadecimal(&self.sha256.finalize());
        let compared = match self.other {
            Other::None => sha256.clone(),
            Other::Md5(digest) => hexadecimal(&digest.finalize()),
            Other::Sha512(digest) => hexadecimal(&digest.finalize()),
        };
        (sha256, compared)
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes the image that `image_info` describes; returns what the agent reports of it.
pub(super) async fn write_image(commands: &Commands, image_info: &Value) -> Result<String, Error> {
    let image = Image::parse(image_info)?;
    let mut tries = 1;
    loop {
        match attempt(commands, &image).await {
            Ok(()) => return Ok(format!("image ({}) written to device /dev/sda root_uuid=None", image.id)),
            Err(error) if tries >= TRIES || matches!(error, Error::Request(_)) => return Err(error),
            Err(error) => tracing::debug!(image = image.id, tries, %error, "download again"),
        }
        tries += 1;
        commands.host.sleep(PAUSE).await;
    }
}

async fn attempt(commands: &Commands, image: &Image) -> Result<(), Error> {
    let (algorithm, expected) = image.expected_digest(commands).await?;
    let mut failed = None;
    for url in &image.urls {
        match download(commands, image, url, algorithm).await {
            Err(error) => failed = Some(error),
            Ok((sha256, found)) => {
                let matches = found == expected;
                if matches || image.streamed {
                    commands.hardware.write_disk(sha256, url.clone()).await;
                }
                if matches {
                    return Ok(());
                }
                let location =
                    if image.streamed { "/dev/sda".to_owned() } else { format!("/tmp/{}", image.id) };
                return Err(Error::Checksum { location, id: image.id.clone(), expected, found });
            }
        }
    }
    Err(failed.unwrap_or_else(|| Error::Request("Image 'urls' list is empty".to_owned())))
}

/// Downloads an image in pieces; returns its SHA-256 and the digest to compare.
async fn download(
    commands: &Commands,
    image: &Image,
    url: &str,
    algorithm: Algorithm,
) -> Result<(String, String), Error> {
    let host = &commands.host;
    let began = host.now();
    let timeouts = Timeouts { connect: TIMEOUT, read: TIMEOUT };
    let words = Requests::new(host, timeouts);
    let failed = |reason: String| Error::Download {
        id: image.id.clone(),
        url: url.to_owned(),
        seconds: (host.now() - began).as_secs(),
        reason,
    };
    let uri: Uri = url.parse().map_err(|_| failed(format!("Invalid URL '{url}'")))?;
    let request = Request::builder().method(Method::GET).uri(uri.clone()).body(bytes::Bytes::new());
    let request = request.map_err(|error| failed(error.to_string()))?;
    let answer = Client::without_keep_alive(host, timeouts).open(request).await;
    let answer = answer.map_err(|error| failed(words.failure(&uri, &error, Progress::Head).to_string()))?;
    if answer.status() != StatusCode::OK {
        let code = answer.status().as_u16();
        return Err(failed(format!("Received status code {code} from {url}, expected 200.")));
    }
    let expected =
        answer.headers().get(http::header::CONTENT_LENGTH).and_then(|size| size.to_str().ok()?.parse().ok());
    let (mut digests, mut read) = (Digests::new(algorithm), 0);
    let mut pieces = answer.into_body();
    loop {
        match pieces.next().await {
            Ok(None) => return Ok(digests.finish()),
            Ok(Some(piece)) => {
                read += piece.len() as u64;
                digests.update(&piece);
            }
            Err(error) => {
                let progress = Progress::Body { read, expected };
                return Err(failed(words.failure(&uri, &error, progress).to_string()));
            }
        }
    }
}

impl Image {
    fn parse(info: &Value) -> Result<Self, Error> {
        let text = |key: &str| info.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        let missing = |what: &str| Error::Request(format!("Image is missing '{what}' field."));
        let id = text("id").ok_or_else(|| missing("id"))?.to_owned();
        let urls = info.get("urls").and_then(Value::as_array).ok_or_else(|| missing("urls"))?;
        let urls: Vec<String> = urls.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        let raw = text("disk_format") == Some("raw");
        let streamed = raw && info.get("stream_raw_images").and_then(Value::as_bool).unwrap_or(false);
        let (algorithm, value) = match (text("os_hash_algo"), text("os_hash_value"), text("checksum")) {
            (Some(name), Some(value), _) => {
                let algorithm = Algorithm::named(name)
                    .ok_or_else(|| Error::Request(format!("Unable to verify image {id} with available checksums. Please make sure the specified 'os_hash_algo' (currently {name}) is supported by this ramdisk")))?;
                (Some(algorithm), value)
            }
            (_, _, Some(value)) => (None, value),
            (_, _, None) => return Err(missing("checksum")),
        };
        Ok(Self { id, urls, streamed, expected: Expected { algorithm, value: value.to_owned() } })
    }

    /// The digest that the image must have, downloaded if it is given by its address.
    async fn expected_digest(&self, commands: &Commands) -> Result<(Algorithm, String), Error> {
        let Expected { algorithm, value } = &self.expected;
        let digest = if value.starts_with("http://") || value.starts_with("https://") {
            let list = self.fetch_checksums(commands, value).await?;
            let found = self.urls.first().and_then(|image| checksum_in(&list, image));
            found.ok_or_else(|| Error::Download {
                id: self.id.clone(),
                url: value.clone(),
                seconds: 0,
                reason: format!("Checksum file does not contain name {}", self.id),
            })?
        } else {
            value.to_ascii_lowercase()
        };
        match algorithm.or_else(|| Algorithm::of(&digest)) {
            Some(algorithm) => Ok((algorithm, digest)),
            None => {
                Err(Error::Request(format!("Unable to verify image {} with available checksums", self.id)))
            }
        }
    }

    async fn fetch_checksums(&self, commands: &Commands, url: &str) -> Result<String, Error> {
        let host = &commands.host;
        let began = host.now();
        let requests = Requests::new(host, Timeouts { connect: TIMEOUT, read: TIMEOUT });
        let failed = |reason: String| Error::Download {
            id: self.id.clone(),
            url: url.to_owned(),
            seconds: (host.now() - began).as_secs(),
            reason,
        };
        let answer = requests.fetch(Method::GET, url).await.map_err(|failure| failed(failure.to_string()))?;
        if answer.status != StatusCode::OK {
            let code = answer.status.as_u16();
            return Err(failed(format!("Received status code {code} from {url}, expected 200.")));
        }
        Ok(String::from_utf8_lossy(&answer.body).into_owned())
    }
}

/// Finds an image's digest in a checksum file: a lone digest, or lines like those of `sha256sum` or of BSD.
fn checksum_in(list: &str, image: &str) -> Option<String> {
    let name = image.rsplit('/').next().unwrap_or(image);
    let lines: Vec<&str> =
        list.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    if let [line] = lines[..]
        && !line.contains(char::is_whitespace)
    {
        return is_digest(line).then(|| line.to_ascii_lowercase());
    }
    lines.into_iter().find_map(|line| {
        // `SHA256 (name) = digest`, or `digest  name`, or `digest *name`.
        let (digest, found) = match line.split_once(" = ") {
            Some((head, digest)) => (digest, head.split_once('(')?.1.strip_suffix(')')?),
            None => line.split_once(char::is_whitespace)?,
        };
        let found = found.trim().trim_start_matches('*');
        let found = found.rsplit('/').next().unwrap_or(found);
        (found == name && is_digest(digest)).then(|| digest.to_ascii_lowercase())
    })
}

fn is_digest(text: &str) -> bool {
    Algorithm::of(text).is_some() && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_files_come_in_three_shapes() {
        let a = "A".repeat(64);
        let b = "b".repeat(64);
        for (list, found) in [
            (format!("{a}\n"), Some("a".repeat(64))),
            (format!("{b}  other.img\n{a}  disk.img\n"), Some("a".repeat(64))),
            (format!("# made by us\n{a} *./images/disk.img\n"), Some("a".repeat(64))),
            (format!("SHA256 (disk.img) = {a}\n"), Some("a".repeat(64))),
            (format!("{b}  other.img\n"), None),
            ("not found".to_owned(), None),
            (String::new(), None),
        ] {
            assert_eq!(checksum_in(&list, "http://cache/images/disk.img"), found, "{list}");
        }
    }
}
