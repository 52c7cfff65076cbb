//! What the conductor learns of a disk image before it asks an agent to write it.
//!
//! It asks the image's server for the head of the image and nothing else; fetching the image, and a checksum that is
//! given by its address, is left to the agent.

use std::{fmt, sync::Arc, time::Duration};

use http::{Method, StatusCode, header};
use serde_json::{Map, Value};
use wire::{Host, http::Timeouts};

use crate::{
    driver::{head_refused, requests::Requests},
    settings::Settings,
};

/// Linux's own patience with a connection; the settings bound the answer, not the connection.
pub(crate) const LIMIT_OF_CONNECT: Duration = Duration::from_secs(127);

/// Asks image servers.
#[derive(Clone)]
pub(crate) struct Images {
    requests: Requests,
}

/// What is known of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ImageProps {
    /// Where it is, after redirects; Ironic writes this back to `instance_info.image_source`.
    pub(crate) href: String,
    /// Its size in bytes, if the server tells.
    pub(crate) size: Option<u64>,
    /// Whether the address names a folder rather than a file.
    pub(crate) is_folder: bool,
}

/// Why an image cannot be used. Its text is Ironic's.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ImageError {
    /// The image's server does not confirm the image.
    #[error("Validation of image href {href} failed, reason: {reason}")]
    Validation { href: String, reason: String },
    /// A file could not be downloaded.
    #[error("Failed to download image {href}, reason: {reason}")]
    Download { href: String, reason: String },
    /// The node names no image.
    #[error("Some parameters were missing. Missing are: ['instance_info.image_source']")]
    Missing,
}

impl ImageError {
    pub(crate) fn validation(href: &str, reason: &dyn fmt::Display) -> Self {
        Self::Validation { href: href.to_owned(), reason: reason.to_string() }
    }

    pub(crate) fn download(href: &str, reason: &dyn fmt::Display) -> Self {
        Self::Download { href: href.to_owned(), reason: reason.to_string() }
    }
}

impl Images {
    pub(crate) fn new(host: Host, settings: Arc<Settings>) -> Self {
        let read = settings.image.webserver_connection_timeout;
        let timeouts = Timeouts { connect: read.min(LIMIT_OF_CONNECT), read };
        Self { requests: Requests::new(&host, timeouts).telling(settings.release.connection_errors) }
    }

    /// Whether the image that `instance_info` names is there.
    pub(crate) async fn validate(
        &self,
        instance_info: &Map<String, Value>,
    ) -> Result<ImageProps, ImageError> {
        let href = instance_info.get("image_source").and_then(Value::as_str).filter(|href| !href.is_empty());
        let href = href.ok_or(ImageError::Missing)?;
        match href.split_once("://").map(|(scheme, _)| scheme) {
            Some("http" | "https") => self.ask(href).await,
            Some(other) => {
                let reason = format!("Image download protocol {other} is not supported.");
                Err(ImageError::validation(href, &reason))
            }
            // Without a scheme it would be an image of Glance, which metal3 does not run.
            None => Err(ImageError::validation(href, &"Image download protocol None is not supported.")),
        }
    }

    async fn ask(&self, href: &str) -> Result<ImageProps, ImageError> {
        let answer = self.requests.fetch(Method::HEAD, href).await;
        let answer = answer.map_err(|failure| ImageError::validation(href, &failure))?;
        if answer.status != StatusCode::OK {
            return Err(ImageError::validation(href, &head_refused(answer.status)));
        }
        let size = answer.header(header::CONTENT_LENGTH).and_then(|size| size.parse().ok());
        let href = answer.redirected.unwrap_or_else(|| href.to_owned());
        let is_folder = href.ends_with('/');
        Ok(ImageProps { href, size, is_folder })
    }
}

#[cfg(test)]
mod tests {
    use axum::{Router, response::Redirect, routing::get};
    use serde_json::json;
    use wire::Seed;

    use super::*;

    /// What becomes of an image, with a server at `cache` that has `disk.img` of 5 bytes.
    fn validated(source: Value) -> Result<ImageProps, String> {
        engine::simulate(Seed(1), |net| async move {
            let cache = net.host("cache");
            let app = Router::new()
                .route("/images/disk.img", get(async || "image"))
                .route("/old/disk.img", get(async || Redirect::permanent("/images/disk.img")));
            drop(cache.clone().spawn(async move { wire::http::serve(&cache, 80, app).await }));
            net.host("nobody");
            let images = Images::new(net.host("ironic"), Arc::default());
            let info = json!({ "image_source": source });
            let info = info.as_object().cloned().unwrap_or_default();
            images.validate(&info).await.map_err(|error| error.to_string())
        })
    }

    #[test]
    fn an_image_is_asked_for_and_redirects_are_followed() {
        let there =
            ImageProps { href: "http://cache/images/disk.img".to_owned(), size: Some(5), is_folder: false };
        for source in ["http://cache/images/disk.img", "http://cache/old/disk.img"] {
            assert_eq!(validated(source.into()).as_ref(), Ok(&there), "{source}");
        }
    }

    #[test]
    fn each_failure_is_told_in_ironics_words() {
        for (source, reason) in [
            ("http://cache/gone", "Got HTTP code 404 instead of 200 in response to HEAD request."),
            (
                "http://nobody/x",
                "HTTPConnectionPool(host='nobody', port=80): Max retries exceeded with url: /x (Caused by NewConnectionError(\"HTTPConnection(host='nobody', port=80): Failed to establish a new connection: [Errno 111] Connection refused\"))",
            ),
            (
                "http://unheard.of/x",
                "HTTPConnectionPool(host='unheard.of', port=80): Max retries exceeded with url: /x (Caused by NameResolutionError(\"HTTPConnection(host='unheard.of', port=80): Failed to resolve 'unheard.of' ([Errno -2] Name or service not known)\"))",
            ),
            ("ftp://cache/x", "Image download protocol ftp is not supported."),
        ] {
            let words = format!("Validation of image href {source} failed, reason: {reason}");
            assert_eq!(validated(source.into()), Err(words));
        }
        assert!(validated(Value::Null).is_err_and(|words| words.ends_with("['instance_info.image_source']")));
    }
}
