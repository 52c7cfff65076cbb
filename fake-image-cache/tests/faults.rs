//! What clients see of a cache and of each of its faults, on the wire.

use std::time::Duration;

use bytes::Bytes;
use fake_image_cache::{Fault, FaultId, ImageCache, Pattern};
use http::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use wire::{
    Host, Seed,
    http::{Client, Error, Timeouts},
};

const IMAGE: &str = "images/linux.qcow2";
const SIZE: u64 = 5_000;

/// A cache with an image, and a client at another host.
#[derive(Clone)]
struct World {
    cache: ImageCache,
    client: Client,
    host: Host,
}

impl World {
    /// Runs a story in a world of its own.
    fn run<T, S, F>(story: S) -> T
    where
        T: Send + 'static,
        S: FnOnce(Self) -> F + Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        engine::simulate(Seed(7), |net| async move {
            let cache = ImageCache::new();
            cache.add_image(IMAGE, SIZE);
            cache.serve(&net.host("cache"), 80);
            let host = net.host("client");
            let timeouts = Timeouts { connect: Duration::from_secs(10), read: Duration::from_secs(60) };
            let client = Client::new(&host, timeouts);
            story(Self { cache, client, host }).await
        })
    }

    fn apply(&self, fault: Value) -> FaultId {
        self.cache.apply(serde_json::from_value::<Fault>(fault).unwrap())
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Result<Response<Bytes>, Error> {
        let mut request = Request::builder().method(method).uri(format!("http://cache/{path}"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.client.send(request.body(Bytes::new()).unwrap()).await
    }

    async fn get(&self, path: &str) -> Result<Response<Bytes>, Error> {
        self.send(Method::GET, path, &[]).await
    }

    async fn status(&self, method: Method, path: &str) -> u16 {
        self.send(method, path, &[]).await.unwrap().status().as_u16()
    }

    /// The body's bytes up to where it breaks, and how.
    async fn pieces(&self, path: &str) -> (Vec<u8>, Option<Error>) {
        let request = Request::get(format!("http://cache/{path}")).body(Bytes::new()).unwrap();
        let mut body = match self.client.open(request).await {
            Ok(response) => response.into_body(),
            Err(error) => return (Vec::new(), Some(error)),
        };
        let mut seen = Vec::new();
        loop {
            match body.next().await {
                Ok(Some(piece)) => seen.extend_from_slice(&piece),
                Ok(None) => return (seen, None),
                Err(error) => return (seen, Some(error)),
            }
        }
    }
}

fn header(response: &Response<Bytes>, name: &str) -> String {
    response.headers().get(name).map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default()
}

#[test]
fn an_image_and_its_checksum_agree() {
    World::run(|world| async move {
        let image = world.get(IMAGE).await.unwrap();
        assert_eq!(image.status(), StatusCode::OK);
        assert_eq!(image.body().len() as u64, SIZE);
        let sum = world.get(&format!("{IMAGE}.sha256sum")).await.unwrap();
        let digest: String = Sha256::digest(image.body()).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(sum.body(), format!("{digest}  linux.qcow2\n").as_bytes());
        for (ending, digits) in [("md5sum", 32), ("sha512sum", 128)] {
            let sum = world.get(&format!("{IMAGE}.{ending}")).await.unwrap();
            assert_eq!(sum.body().len(), digits + "  linux.qcow2\n".len());
        }
    });
}

#[test]
fn heads_ranges_and_preconditions_are_answered() {
    World::run(|world| async move {
        let whole = world.get(IMAGE).await.unwrap();
        let head = world.send(Method::HEAD, IMAGE, &[]).await.unwrap();
        assert_eq!(head.status(), StatusCode::OK);
        assert_eq!(header(&head, "content-length"), SIZE.to_string());
        assert!(head.body().is_empty());
        for name in ["etag", "last-modified", "accept-ranges"] {
            assert_eq!(header(&head, name), header(&whole, name), "{name}");
        }
        // The world of this test begins then.
        assert_eq!(header(&head, "last-modified"), "Sun, 13 Sep 2020 12:26:40 GMT");

        let part = world.send(Method::GET, IMAGE, &[("range", "bytes=10-19")]).await.unwrap();
        assert_eq!(part.status(), StatusCode::PARTIAL_CONTENT);
        assert_eq!(header(&part, "content-range"), "bytes 10-19/5000");
        assert_eq!(part.body()[..], whole.body()[10..20]);

        let beyond = world.send(Method::GET, IMAGE, &[("range", "bytes=5000-")]).await.unwrap();
        assert_eq!(beyond.status(), StatusCode::RANGE_NOT_SATISFIABLE);
        assert_eq!(header(&beyond, "content-range"), "bytes */5000");

        let etag = header(&whole, "etag");
        let known = world.send(Method::GET, IMAGE, &[("if-none-match", &etag)]).await.unwrap();
        assert_eq!((known.status(), known.body().len()), (StatusCode::NOT_MODIFIED, 0));

        assert_eq!(world.status(Method::GET, "images/other.qcow2").await, 404);
        assert_eq!(world.status(Method::GET, "").await, 404);
        assert_eq!(world.status(Method::PUT, IMAGE).await, 405);
    });
}

#[test]
fn moved_files_are_not_found_until_they_are_restored() {
    World::run(|world| async move {
        let sum = format!("{IMAGE}.md5sum");
        let moved = world.cache.move_away(&Pattern::from("*.qcow2"));
        assert_eq!(moved.len(), 4, "the image goes with its three checksum files: {moved:?}");
        assert_eq!(world.status(Method::HEAD, IMAGE).await, 404);
        assert_eq!(world.status(Method::GET, &sum).await, 404);
        assert_eq!(world.cache.restore(&Pattern::from(&sum[..])), std::slice::from_ref(&sum));
        assert_eq!(world.status(Method::GET, &sum).await, 200);
        assert_eq!(world.status(Method::GET, IMAGE).await, 404);
        assert_eq!(world.cache.restore(&Pattern::all()).len(), 3);
        assert_eq!(world.status(Method::GET, IMAGE).await, 200);
    });
}

#[test]
fn a_move_as_a_fault_counts_who_missed_the_files() {
    World::run(|world| async move {
        let fault = world.apply(json!({ "kind": "move-away", "files": "images/" }));
        assert_eq!(world.cache.touched(fault), 0);
        assert_eq!(world.status(Method::HEAD, IMAGE).await, 404);
        assert_eq!(world.status(Method::GET, IMAGE).await, 404);
        // This file was never there: that it is not found is not the fault's doing.
        assert_eq!(world.status(Method::GET, "images/other.qcow2").await, 404);
        assert_eq!(world.cache.touched(fault), 2);
        world.cache.clear(fault);
        assert_eq!(world.status(Method::GET, IMAGE).await, 200);
        assert_eq!(world.cache.touched(fault), 2);
    });
}

#[test]
fn an_error_befalls_those_it_selects() {
    World::run(|world| async move {
        let on = json!({ "files": "*.qcow2", "method": "GET", "nth": 2, "count": 2 });
        let fault = world.apply(json!({ "kind": "status", "code": 503, "on": on }));
        let mut seen = Vec::new();
        for (method, path) in [
            (Method::GET, IMAGE),
            (Method::HEAD, IMAGE),
            (Method::GET, "images/linux.qcow2.md5sum"),
            (Method::GET, IMAGE),
            (Method::GET, IMAGE),
            (Method::GET, IMAGE),
        ] {
            seen.push(world.status(method, path).await);
        }
        assert_eq!(seen, [200, 200, 200, 503, 503, 200]);
        assert_eq!(world.cache.touched(fault), 2);
    });
}

#[test]
fn a_slow_body_takes_its_time_and_is_whole() {
    World::run(|world| async move {
        let whole = world.get(IMAGE).await.unwrap();
        let fault = world.apply(json!({ "kind": "slow", "bytes_per_second": 100 }));
        let began = world.host.now();
        let slow = world.get(IMAGE).await.unwrap();
        let took = world.host.now() - began;
        assert_eq!(slow.body(), whole.body());
        assert!((48..=51).contains(&took.as_secs()), "5000 bytes at 100 a second took {took:?}");
        assert_eq!(world.status(Method::HEAD, IMAGE).await, 200);
        assert_eq!(world.cache.touched(fault), 1, "the head of an answer is not slow");
    });
}

#[test]
fn a_truncated_body_ends_early() {
    World::run(|world| async move {
        let whole = world.get(IMAGE).await.unwrap();
        let fault = world.apply(json!({ "kind": "truncate", "bytes": 1234 }));
        let (seen, error) = world.pieces(IMAGE).await;
        assert_eq!(seen, whole.body()[..1234]);
        assert!(matches!(error, Some(Error::Closed { .. })), "{error:?}");
        // A checksum file is shorter than that.
        assert_eq!(world.pieces("images/linux.qcow2.md5sum").await.0.len(), 46);
        assert_eq!(world.cache.touched(fault), 1);
    });
}

#[test]
fn a_reset_connection_is_seen_as_one() {
    World::run(|world| async move {
        let fault = world.apply(json!({ "kind": "reset", "on": { "count": 1 } }));
        let error = world.get(IMAGE).await.unwrap_err();
        assert!(matches!(error, Error::Reset { .. }), "{error:?}");
        assert_eq!(world.status(Method::GET, IMAGE).await, 200);
        assert_eq!(world.cache.touched(fault), 1);

        let fault = world.apply(json!({ "kind": "reset", "after_bytes": 1000 }));
        let (seen, error) = world.pieces(IMAGE).await;
        assert!(seen.len() <= 1000, "{} bytes came", seen.len());
        assert!(matches!(error, Some(Error::Reset { .. })), "{error:?}");
        assert_eq!(world.cache.touched(fault), 1);
    });
}

#[test]
fn a_stalled_server_keeps_its_client_waiting() {
    World::run(|world| async move {
        let fault = world.apply(json!({ "kind": "stall", "on": { "method": "HEAD" } }));
        let error = world.send(Method::HEAD, IMAGE, &[]).await.unwrap_err();
        assert!(matches!(error, Error::ReadTimeout { .. }), "{error:?}");
        assert_eq!(world.cache.touched(fault), 1);

        let fault = world.apply(json!({ "kind": "stall", "after_bytes": 700 }));
        let began = world.host.now();
        let (seen, error) = world.pieces(IMAGE).await;
        assert_eq!(seen.len(), 700);
        assert!(matches!(error, Some(Error::ReadTimeout { .. })), "{error:?}");
        assert!((world.host.now() - began).as_secs() >= 60);
        assert_eq!(world.cache.touched(fault), 1);
    });
}

#[test]
fn a_wrong_checksum_looks_like_one_and_is_none() {
    World::run(|world| async move {
        let path = format!("{IMAGE}.sha256sum");
        let right = world.get(&path).await.unwrap();
        let fault = world.apply(json!({ "kind": "wrong-checksum", "on": { "files": IMAGE } }));
        let wrong = world.get(&path).await.unwrap();
        assert_eq!(right.body().len(), wrong.body().len());
        assert_eq!(right.body()[64..], wrong.body()[64..]);
        assert!(wrong.body()[..64].iter().all(u8::is_ascii_hexdigit));
        assert_ne!(right.body()[..64], wrong.body()[..64]);
        assert_ne!(header(&right, "etag"), header(&wrong, "etag"));
        // The image itself is as it was.
        assert_eq!(world.get(IMAGE).await.unwrap().body().len() as u64, SIZE);
        assert_eq!(world.cache.touched(fault), 1);
        world.cache.clear(fault);
        assert_eq!(world.get(&path).await.unwrap().body(), right.body());
    });
}

#[test]
fn the_newest_fault_acts() {
    World::run(|world| async move {
        let older = world.apply(json!({ "kind": "status", "code": 500 }));
        let newer = world.apply(json!({ "kind": "status", "code": 503, "on": { "count": 1 } }));
        assert_eq!(world.status(Method::GET, IMAGE).await, 503);
        assert_eq!(world.status(Method::GET, IMAGE).await, 500);
        assert_eq!((world.cache.touched(older), world.cache.touched(newer)), (1, 1));
    });
}

#[test]
fn moves_are_noted_in_the_journal() {
    let outcome = engine::run(engine::Config::default(), |net| async move {
        let cache = ImageCache::new();
        cache.add_image("a.img", 10);
        cache.serve(&net.host("cache"), 80);
        net.host("client").sleep(Duration::from_secs(1)).await;
        cache.move_away(&Pattern::from("a.img"));
        // Nothing is left to be moved.
        cache.move_away(&Pattern::from("a.img"));
        cache.restore(&Pattern::all());
    });
    let all = ["a.img", "a.img.md5sum", "a.img.sha256sum", "a.img.sha512sum"];
    let noted: Vec<_> = outcome
        .records
        .iter()
        .filter_map(|record| match &record.what {
            engine::What::Entry(entry) if entry.topic == "files" => {
                Some((entry.host.clone(), entry.subject.clone(), entry.data.clone()))
            }
            _ => None,
        })
        .collect();
    let note = |data| ("cache".to_owned(), "cache".to_owned(), data);
    assert_eq!(noted, [note(json!({ "moved-away": all })), note(json!({ "restored": all }))]);
}
