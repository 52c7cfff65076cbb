//! The machine: files and faults, from request to response.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use jiff::Timestamp;
use wire::http::Fate;

use crate::{
    Fault, Method, Pattern, Selector,
    content::{self, File},
    precondition::{Portion, Validators, http_date, portion},
};

/// A fault that was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FaultId(u64);

/// Files by their path below the server's root, and what is wrong with them.
#[derive(Clone, Debug, Default)]
pub struct Cache {
    files: BTreeMap<String, File>,
    /// What somebody moved away, faults aside.
    away: BTreeSet<String>,
    modified: Option<Timestamp>,
    faults: BTreeMap<FaultId, Begun>,
}

#[derive(Clone, Debug)]
struct Begun {
    fault: Fault,
    ended: bool,
    /// What it moved away.
    moved: BTreeSet<String>,
    /// How many requests its selector matched.
    matched: u64,
    touched: u64,
}

/// What becomes of a request.
#[derive(Clone, Debug)]
pub enum Answer {
    /// A response; a [`Fate`] may be among its extensions.
    Response(Response<Bytes>),
    /// None, ever.
    Never,
}

impl Cache {
    /// See [`crate::ImageCache::add_image`].
    pub fn add_image(&mut self, name: &str, size: u64) {
        self.files.extend(content::image(name.trim_start_matches('/'), size));
    }

    /// The calendar time since when the files are as they are; only the first call counts.
    pub fn stamp(&mut self, now: Timestamp) {
        self.modified.get_or_insert(now);
    }

    /// See [`crate::ImageCache::move_away`].
    pub fn move_away(&mut self, files: &Pattern) -> Vec<String> {
        self.seeing_what_vanishes(|cache| cache.away.extend(cache.meant(files)))
    }

    /// See [`crate::ImageCache::restore`].
    pub fn restore(&mut self, files: &Pattern) -> Vec<String> {
        self.seeing_what_appears(|cache| {
            for name in cache.meant(files) {
                cache.away.remove(&name);
            }
        })
    }

    /// Begins a fault. Tells which files were there and are not any more.
    pub fn apply(&mut self, fault: Fault) -> (FaultId, Vec<String>) {
        let id = FaultId(self.faults.last_key_value().map_or(0, |(FaultId(last), _)| last + 1));
        let moved = match &fault {
            Fault::MoveAway { files } => self.meant(files),
            Fault::Status { .. }
            | Fault::Slow { .. }
            | Fault::Truncate { .. }
            | Fault::Reset { .. }
            | Fault::Stall { .. }
            | Fault::WrongChecksum { .. } => BTreeSet::new(),
        };
        let begun = Begun { fault, ended: false, moved, matched: 0, touched: 0 };
        let vanished = self.seeing_what_vanishes(|cache| drop(cache.faults.insert(id, begun)));
        (id, vanished)
    }

    /// Ends a fault. Tells which files are there again.
    pub fn clear(&mut self, id: FaultId) -> Vec<String> {
        self.seeing_what_appears(|cache| {
            if let Some(begun) = cache.faults.get_mut(&id) {
                begun.ended = true;
            }
        })
    }

    /// How many requests a fault has changed the answer of, also after its end.
    pub fn touched(&self, id: FaultId) -> u64 {
        self.faults.get(&id).map_or(0, |begun| begun.touched)
    }

    /// Answers a request.
    pub fn handle(&mut self, method: &http::Method, path: &str, headers: &HeaderMap) -> Answer {
        let method = match *method {
            http::Method::GET => Method::Get,
            http::Method::HEAD => Method::Head,
            _ => {
                let mut response = refusal(StatusCode::METHOD_NOT_ALLOWED);
                response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
                return Answer::Response(response);
            }
        };
        let name = path.trim_start_matches('/');
        let file = self.files.get(name).filter(|_| !self.away.contains(name)).cloned();
        let plain = file.as_ref().map_or_else(
            || refusal(StatusCode::NOT_FOUND),
            |file| whole_or_part(file, headers, self.modified.unwrap_or_default()),
        );
        // The newest fault is asked first, and the first that acts decides.
        let active = self.faults.values_mut().rev().filter(|begun| !begun.ended);
        for begun in active {
            let Some(changed) = begun.change(method, name, file.as_ref(), &plain, |file| {
                whole_or_part(file, headers, self.modified.unwrap_or_default())
            }) else {
                continue;
            };
            begun.touched += 1;
            return changed;
        }
        Answer::Response(plain)
    }

    /// The files that a pattern for images or files means.
    fn meant(&self, pattern: &Pattern) -> BTreeSet<String> {
        let meant = self.files.iter().filter(|(name, file)| is_meant(pattern, name, file));
        meant.map(|(name, _)| name.clone()).collect()
    }

    /// The names of the files that a client finds, faults other than moved files aside.
    fn there(&self) -> BTreeSet<String> {
        let active = || self.faults.values().filter(|begun| !begun.ended);
        let gone =
            |name: &&String| self.away.contains(*name) || active().any(|begun| begun.moved.contains(*name));
        self.files.keys().filter(|name| !gone(name)).cloned().collect()
    }

    fn seeing_what_vanishes(&mut self, change: impl FnOnce(&mut Self)) -> Vec<String> {
        let before = self.there();
        change(self);
        before.difference(&self.there()).cloned().collect()
    }

    fn seeing_what_appears(&mut self, change: impl FnOnce(&mut Self)) -> Vec<String> {
        let before = self.there();
        change(self);
        self.there().difference(&before).cloned().collect()
    }
}

/// Whether a pattern means a file, by itself or with its image.
fn is_meant(pattern: &Pattern, name: &str, file: &File) -> bool {
    pattern.matches(name) || file.checksum_of.as_deref().is_some_and(|image| pattern.matches(image))
}

impl Begun {
    /// The answer as the fault makes it, if this is a request that it befalls. `plain` is the answer without it.
    fn change(
        &mut self,
        method: Method,
        name: &str,
        file: Option<&File>,
        plain: &Response<Bytes>,
        send: impl Fn(&File) -> Response<Bytes>,
    ) -> Option<Answer> {
        let fated = |fate| {
            let mut response = plain.clone();
            response.extensions_mut().insert(fate);
            Answer::Response(response)
        };
        let length = plain.body().len() as u64;
        // What happens to a body can't happen to the answer of a HEAD.
        let cuts = |at: u64| method == Method::Get && at < length;
        let (on, effect) = match &self.fault {
            Fault::MoveAway { .. } => {
                let hidden = file.is_some() && self.moved.contains(name);
                return hidden.then(|| Answer::Response(refusal(StatusCode::NOT_FOUND)));
            }
            Fault::Status { code, on } => (on, Some(Answer::Response(refusal(code.http())))),
            Fault::Slow { bytes_per_second, on } => {
                (on, cuts(0).then(|| fated(Fate::Slow(bytes_per_second.get()))))
            }
            Fault::Truncate { bytes, on } => (on, cuts(*bytes).then(|| fated(Fate::Truncate(*bytes)))),
            Fault::Reset { after_bytes: None, on } => (on, Some(fated(Fate::Reset))),
            Fault::Reset { after_bytes: Some(bytes), on } => {
                (on, cuts(*bytes).then(|| fated(Fate::ResetAfter(*bytes))))
            }
            Fault::Stall { after_bytes: None, on } => (on, Some(Answer::Never)),
            Fault::Stall { after_bytes: Some(bytes), on } => {
                (on, cuts(*bytes).then(|| fated(Fate::StallAfter(*bytes))))
            }
            Fault::WrongChecksum { on } => {
                let sum = file.filter(|file| file.checksum_of.is_some());
                (on, sum.map(|file| Answer::Response(send(&file.wrong()))))
            }
        };
        let effect = effect?;
        let meant = match (&self.fault, file) {
            (Fault::WrongChecksum { .. }, Some(file)) => is_meant(&on.files, name, file),
            _ => on.files.matches(name),
        };
        if !meant || on.method.is_some_and(|wanted| wanted != method) {
            return None;
        }
        self.matched += 1;
        Selector::includes(on, self.matched).then_some(effect)
    }
}

fn whole_or_part(file: &File, headers: &HeaderMap, modified: Timestamp) -> Response<Bytes> {
    let length = file.content.len();
    let (status, body, range) = match portion(headers, length, &Validators { etag: &file.etag, modified }) {
        Portion::Whole => (StatusCode::OK, file.content.clone(), None),
        Portion::Part(from, to) => {
            let range = format!("bytes {from}-{}/{length}", to - 1);
            (StatusCode::PARTIAL_CONTENT, file.content.slice(from..to), Some(range))
        }
        Portion::OutOfRange => {
            (StatusCode::RANGE_NOT_SATISFIABLE, Bytes::new(), Some(format!("bytes */{length}")))
        }
        Portion::Unmodified => (StatusCode::NOT_MODIFIED, Bytes::new(), None),
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let mut set = |name, value: &str| {
        if let Ok(value) = HeaderValue::from_str(value) {
            response.headers_mut().insert(name, value);
        }
    };
    set(header::ACCEPT_RANGES, "bytes");
    set(header::CONTENT_TYPE, file.media_type);
    set(header::ETAG, &file.etag);
    set(header::LAST_MODIFIED, &http_date(modified));
    if let Some(range) = range {
        set(header::CONTENT_RANGE, &range);
    }
    response
}

/// An answer that says only what is wrong.
fn refusal(status: StatusCode) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(format!("{status}\n")));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    response
}
