//! What a server does to its connection instead of, or while, answering: the faults a client can see.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::body::Body;
use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};

/// Put one into a response's extensions and the serve loop carries it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// No answer: the connection ends with a RST.
    Reset,
    /// No answer: the connection is closed with a FIN.
    Close,
    /// The head and this many bytes of the body are sent, then the connection is closed with a FIN.
    Truncate(u64),
    /// The head and this many bytes of the body are sent, then the connection ends with a RST.
    ResetAfter(u64),
    /// The head and this many bytes of the body are sent, then nothing more, ever.
    StallAfter(u64),
    /// The body is sent at this many bytes a second.
    Slow(u64),
}

/// How often a slow body gets its next portion.
const PORTION: Duration = Duration::from_secs(1);

/// Long enough for what was written to leave the process before its connection is cut.
const FLUSH: Duration = Duration::from_millis(1);

/// The body was cut on purpose.
#[derive(Debug, thiserror::Error)]
#[error("cut the body short")]
pub(super) struct Cut;

/// A body that a [`Fate`] befalls.
pub(super) struct FatedBody {
    inner: Body,
    size: SizeHint,
    held: Bytes,
    fate: Option<Fate>,
    sent: u64,
    wait: Option<Pin<Box<tokio::time::Sleep>>>,
    on_cut: Option<crate::ResetSwitch>,
}

impl FatedBody {
    pub(super) fn new(inner: Body, fate: Option<Fate>, switch: crate::ResetSwitch) -> Self {
        let size = inner.size_hint();
        let on_cut = matches!(fate, Some(Fate::ResetAfter(_))).then_some(switch);
        Self { inner, size, held: Bytes::new(), fate, sent: 0, wait: None, on_cut }
    }

    /// How many bytes may still be sent before the fate strikes.
    fn allowance(&self) -> u64 {
        match self.fate {
            Some(Fate::Truncate(limit) | Fate::ResetAfter(limit) | Fate::StallAfter(limit)) => {
                limit - self.sent
            }
            Some(Fate::Slow(rate)) => rate.max(1),
            Some(Fate::Reset | Fate::Close) | None => u64::MAX,
        }
    }

    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        if matches!(self.fate, Some(Fate::StallAfter(_))) {
            return Poll::Pending;
        }
        let wait = self.wait.get_or_insert_with(|| Box::pin(tokio::time::sleep(FLUSH)));
        ready!(wait.as_mut().poll(cx));
        if let Some(switch) = &self.on_cut {
            switch.turn_on();
        }
        Poll::Ready(Some(Err(Cut)))
    }
}

impl http_body::Body for FatedBody {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        let slow = matches!(self.fate, Some(Fate::Slow(_)));
        let allowance = self.allowance();
        if allowance == 0 {
            return self.poll_end(cx);
        }
        if let Some(wait) = &mut self.wait {
            ready!(wait.as_mut().poll(cx));
            self.wait = None;
        }
        while self.held.is_empty() {
            match ready!(Pin::new(&mut self.inner).poll_frame(cx)) {
                None => return Poll::Ready(None),
                Some(Err(_)) => return Poll::Ready(Some(Err(Cut))),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.held = data,
                    Err(frame) => return Poll::Ready(Some(Ok(frame))),
                },
            }
        }
        let portion = usize::try_from(allowance).unwrap_or(usize::MAX).min(self.held.len());
        let data = self.held.split_to(portion);
        self.sent += data.len() as u64;
        if slow {
            self.wait = Some(Box::pin(tokio::time::sleep(PORTION)));
        }
        Poll::Ready(Some(Ok(Frame::data(data))))
    }

    fn size_hint(&self) -> SizeHint {
        self.size
    }
}

/// How the service of a connection ends it without an answer.
#[derive(Debug, thiserror::Error)]
#[error("end the connection without an answer")]
pub(super) struct Unanswered;

impl From<Infallible> for Unanswered {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}
