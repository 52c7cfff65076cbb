//! What a firmware can boot: ramdisk images and iPXE scripts.
//!
//! A real ramdisk is hundreds of megabytes that a virtual CPU would have to run. Here an image says in its first line
//! that it is one, and in its second how its kernel is started:
//!
//! ```text
//! bmsim ramdisk image 1
//! linux http://10.0.0.1/kernel ipa-api-url=http://10.0.0.1:6385 nofb
//! ```
//!
//! An iPXE script is read as iPXE does, as far as Ironic's boot scripts go: `set`, `goto`, labels, `imgfree`,
//! `kernel`, `initrd`, `boot`, and `|| …` after a command for when it fails.

use std::collections::BTreeMap;

/// The first line of each bootable image.
pub const MAGIC: &str = "bmsim ramdisk image 1";

/// How many lines of a script are carried out before it is taken to go round in circles.
const PATIENCE: usize = 1000;

/// Something bootable that was found.
#[derive(Clone, PartialEq)]
pub(crate) struct Ramdisk {
    /// Where the image, or the kernel, was got from.
    pub(crate) url: String,
    /// The kernel's parameters. May hold an agent's token.
    pub(crate) parameters: BTreeMap<String, String>,
}

impl std::fmt::Debug for Ramdisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ramdisk").field("url", &self.url).finish_non_exhaustive()
    }
}

/// Why something cannot be booted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unbootable {
    #[error("find a bootable image")]
    NotAnImage,
    #[error("find the image's kernel line")]
    NoKernelLine,
    #[error("find an iPXE script")]
    NotAScript,
    #[error("carry the iPXE script out: it starts no kernel")]
    NoKernel,
    #[error("carry the iPXE script out: it has an unknown command or label")]
    BadScript,
}

/// Whether these bytes are a ramdisk's kernel, or a whole image.
pub(crate) fn is_bootable(body: &[u8]) -> bool {
    let line = body.split(|byte| *byte == b'\n').next().unwrap_or_default();
    line.strip_suffix(b"\r").unwrap_or(line) == MAGIC.as_bytes()
}

/// Reads an image.
pub(crate) fn read_image(body: &[u8], url: &str) -> Result<Ramdisk, Unbootable> {
    if !is_bootable(body) {
        return Err(Unbootable::NotAnImage);
    }
    let text = std::str::from_utf8(body).map_err(|_| Unbootable::NotAnImage)?;
    let line =
        text.lines().nth(1).and_then(|line| line.strip_prefix("linux ")).ok_or(Unbootable::NoKernelLine)?;
    let mut words = line.split_ascii_whitespace();
    words.next().ok_or(Unbootable::NoKernelLine)?;
    Ok(Ramdisk { url: url.to_owned(), parameters: read_parameters(words) })
}

/// A word without `=` is a parameter with nothing in it; of several with one name the last holds, as in Linux.
fn read_parameters<'a>(words: impl Iterator<Item = &'a str>) -> BTreeMap<String, String> {
    words
        .map(|word| word.split_once('=').unwrap_or((word, "")))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// What an iPXE script wants booted.
#[derive(Clone, PartialEq)]
pub(crate) struct Script {
    pub(crate) kernel: String,
    pub(crate) initrds: Vec<String>,
    pub(crate) parameters: BTreeMap<String, String>,
}

/// Carries an iPXE script out up to its `boot`, supposing that whatever it loads can be loaded.
pub(crate) fn read_script(body: &[u8]) -> Result<Script, Unbootable> {
    let text = std::str::from_utf8(body).map_err(|_| Unbootable::NotAScript)?;
    let mut lines = text.lines();
    if lines.next().map(str::trim_end) != Some("#!ipxe") {
        return Err(Unbootable::NotAScript);
    }
    let lines: Vec<&str> = lines.map(str::trim).collect();
    let mut kernel = None;
    let mut initrds = Vec::new();
    let mut at = 0;
    for _ in 0..PATIENCE {
        let Some(line) = lines.get(at) else { break };
        at += 1;
        // What comes after `||` is for failures, and those are the firmware's here.
        let command = line.split("||").next().unwrap_or_default();
        let mut words = command.split_ascii_whitespace();
        match words.next() {
            None | Some("set" | "echo" | "imgfree") => {}
            Some(comment) if comment.starts_with('#') => {}
            Some(label) if label.starts_with(':') => {}
            Some("goto") => {
                let label = words.next().ok_or(Unbootable::BadScript)?;
                at = lines
                    .iter()
                    .position(|line| line.strip_prefix(':').is_some_and(|name| name.trim() == label))
                    .ok_or(Unbootable::BadScript)?;
            }
            Some("kernel") => {
                let mut words = without_options(words);
                let url = words.next().ok_or(Unbootable::BadScript)?;
                kernel = Some((url.to_owned(), read_parameters(words)));
            }
            Some("initrd") => {
                initrds.push(without_options(words).next().ok_or(Unbootable::BadScript)?.to_owned());
            }
            Some("boot" | "exit") => break,
            Some(_) => return Err(Unbootable::BadScript),
        }
    }
    let (kernel, parameters) = kernel.ok_or(Unbootable::NoKernel)?;
    Ok(Script { kernel, initrds, parameters })
}

/// Drops `--name x` and `--timeout 5000` from the front of a command's words.
fn without_options<'a>(words: impl Iterator<Item = &'a str>) -> impl Iterator<Item = &'a str> {
    let mut words = words.peekable();
    while words.next_if(|word| word.starts_with("--")).is_some_and(|option| !option.contains('=')) {
        words.next();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_gives_its_kernels_parameters() {
        let body = b"bmsim ramdisk image 1\nlinux http://ironic/kernel a=b=c nofb a=d\n";
        let image = read_image(body, "http://ironic/x.iso").unwrap();
        let parameters: Vec<_> = image.parameters.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(parameters, [("a", "d"), ("nofb", "")]);
        assert!(!format!("{image:?}").contains("nofb"), "parameters may hold tokens");
    }

    #[test]
    fn what_is_no_image_does_not_boot() {
        let cases: [(&[u8], Unbootable); 6] = [
            (b"", Unbootable::NotAnImage),
            (b"\x00CD001", Unbootable::NotAnImage),
            (b"bmsim ramdisk image 12\nlinux k", Unbootable::NotAnImage),
            (b"bmsim ramdisk image 1\nlinux k \xff", Unbootable::NotAnImage),
            (b"bmsim ramdisk image 1", Unbootable::NoKernelLine),
            (b"bmsim ramdisk image 1\nlinux  ", Unbootable::NoKernelLine),
        ];
        for (body, why) in cases {
            assert_eq!(read_image(body, "x"), Err(why), "{}", String::from_utf8_lossy(body));
        }
    }

    #[test]
    fn a_script_is_followed_to_its_boot() {
        let body = b"#!ipxe\nset attempts:int32 10\ngoto deploy\n:never\nkernel http://wrong\n\n:deploy\nimgfree\n\
            kernel --timeout 60000 http://ironic/kernel x=1 initrd=ramdisk nofb || goto retry\n\
            initrd --name ramdisk --timeout 60000 http://ironic/ramdisk || goto retry\nboot\n:retry\nprompt\n";
        let script = read_script(body).unwrap();
        assert_eq!(script.kernel, "http://ironic/kernel");
        assert_eq!(script.initrds, ["http://ironic/ramdisk"]);
        assert_eq!(script.parameters["x"], "1");
        assert_eq!(script.parameters["nofb"], "");
        assert!(!script.parameters.contains_key("||"));
    }

    #[test]
    fn a_bad_script_starts_nothing() {
        let cases: [(&[u8], Unbootable); 6] = [
            (b"<html>", Unbootable::NotAScript),
            (b"#!ipxe\nboot\n", Unbootable::NoKernel),
            (b"#!ipxe\nkernel\n", Unbootable::BadScript),
            (b"#!ipxe\nfly away\n", Unbootable::BadScript),
            (b"#!ipxe\ngoto nowhere\n", Unbootable::BadScript),
            (b"#!ipxe\n:a\ngoto a\n", Unbootable::NoKernel),
        ];
        for (body, why) in cases {
            assert_eq!(read_script(body).err(), Some(why), "{}", String::from_utf8_lossy(body));
        }
    }
}
