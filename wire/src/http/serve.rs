//! The serve loop.

use std::{io, net::SocketAddr};

use axum::{Router, body::Body, extract::Request};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use tower::ServiceExt as _;

use super::fate::{Fate, FatedBody, Unanswered};
use crate::{Host, Listener, ResetSwitch, Stream};

/// Who sent a request; found in the request's extensions.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub SocketAddr);

/// Serves `app` on a port for as long as the host lives. Returns only if the port cannot be had.
pub async fn serve(host: &Host, port: u16, app: Router) -> io::Result<()> {
    let listener = host.listen(port).await?;
    serve_on(host, &listener, app).await
}

/// Serves `app` on a listener for as long as the host lives.
pub async fn serve_on(host: &Host, listener: &Listener, app: Router) -> io::Result<()> {
    loop {
        match listener.accept().await {
            Ok(stream) => drop(host.spawn(connection(host.clone(), stream, app.clone()))),
            // A connection that died before it was accepted is that client's trouble, not the server's.
            Err(error) if is_of_one_client(&error) => tracing::debug!(%error, "accept"),
            Err(error) => return Err(error),
        }
    }
}

fn is_of_one_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

async fn connection(host: Host, stream: Stream, app: Router) {
    let peer = Peer(stream.peer());
    let switch = stream.reset_switch();
    let service = hyper::service::service_fn(move |request| {
        answer(host.clone(), peer, switch.clone(), app.clone(), request)
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(None)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades()
        .await;
    if let Err(error) = served {
        tracing::debug!(peer = %peer.0, %error, "connection ended");
    }
}

async fn answer(
    host: Host,
    peer: Peer,
    switch: ResetSwitch,
    app: Router,
    request: http::Request<hyper::body::Incoming>,
) -> Result<http::Response<FatedBody>, Unanswered> {
    let (method, target) = (request.method().clone(), redact(request.uri()));
    let mut request: Request = request.map(Body::new);
    request.extensions_mut().insert(peer);
    let response = app.oneshot(request).await?;
    let fate = response.extensions().get::<Fate>().copied();
    host.note(
        "request",
        &format!("{method} {target}"),
        json!({ "status": response.status().as_u16(), "from": peer.0.ip(), "fate": fate.map(|f| format!("{f:?}")) }),
    );
    match fate {
        Some(Fate::Reset) => {
            switch.turn_on();
            Err(Unanswered)
        }
        Some(Fate::Close) => Err(Unanswered),
        Some(Fate::Truncate(_) | Fate::ResetAfter(_) | Fate::StallAfter(_) | Fate::Slow(_)) | None => {
            Ok(response.map(|body| FatedBody::new(body, fate, switch)))
        }
    }
}

/// The request's path and query without what may be a secret.
fn redact(uri: &http::Uri) -> String {
    let Some(query) = uri.query() else { return uri.path().to_owned() };
    let kept: Vec<String> = query
        .split('&')
        .map(|pair| match pair.split_once('=') {
            Some((key, _)) if key.contains("token") || key.contains("password") => format!("{key}=***"),
            Some(_) | None => pair.to_owned(),
        })
        .collect();
    format!("{}?{}", uri.path(), kept.join("&"))
}
