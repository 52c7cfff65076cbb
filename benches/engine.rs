//! What an hour of a fleet costs: N BMCs, each polled over HTTP every 10 s, on our engine and on stock turmoil.
//!
//! Both do the same work in the same run with real HTTP (hyper and axum), and the result is a ratio, so that it does
//! not depend on the machine. turmoil runs with its default tick of 1 ms. It is too slow for an hour of 100 hosts, so
//! there its cost is measured over a few simulated seconds and compared per simulated second.
//!
//! `cargo bench --bench engine`

#![expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]

use std::{
    io::Write as _,
    net::{IpAddr, Ipv4Addr},
    time::{Duration, Instant},
};

use axum::{Json, Router, routing::get};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper_util::rt::TokioIo;
use serde_json::json;

const INTERVAL: Duration = Duration::from_secs(10);
const PATH: &str = "/redfish/v1/Systems/1";

fn bmc(index: usize) -> Router {
    let system = json!({ "Id": "1", "Name": format!("system {index}"), "PowerState": "On" });
    Router::new().route(PATH, get(async move || Json(system)))
}

/// One request on a connection of its own.
async fn poll(stream: impl hyper::rt::Read + hyper::rt::Write + Send + Unpin + 'static, host: &str) -> usize {
    let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.expect("handshake");
    let request = http::Request::get(PATH).header("host", host).body(Empty::<Bytes>::new()).expect("request");
    let answer = async move {
        let response = sender.send_request(request).await.expect("response");
        response.into_body().collect().await.expect("body").to_bytes().len()
    };
    let (_, length) = tokio::join!(connection, answer);
    length
}

/// Real seconds that our engine takes.
fn ours(hosts: usize, simulated: Duration) -> f64 {
    let began = Instant::now();
    let config = engine::Config { kernels: hosts + 1, ..engine::Config::default() };
    let outcome = engine::run(config, move |net| async move {
        for index in 0..hosts {
            let host = net.host(&format!("bmc{index}"));
            let serving = host.clone();
            drop(host.spawn(async move { wire::http::serve(&serving, 80, bmc(index)).await }));
        }
        let client = net.host("client");
        let polling = client.clone();
        let polled = client.spawn(async move {
            let mut polls = 0;
            while polling.now().0 < simulated {
                for index in 0..hosts {
                    let name = format!("bmc{index}");
                    let stream = polling.connect(&name, 80).await.expect("connect");
                    assert!(poll(TokioIo::new(stream), &name).await > 0);
                    polls += 1;
                }
                polling.sleep(INTERVAL).await;
            }
            polls
        });
        polled.await.expect("the client came to its end")
    });
    assert!(outcome.value.is_some_and(|polls: usize| polls >= hosts), "{:?}", outcome.failure);
    began.elapsed().as_secs_f64()
}

/// Real seconds that stock turmoil takes.
fn turmoil(hosts: usize, simulated: Duration) -> f64 {
    let began = Instant::now();
    let mut sim = ::turmoil::Builder::new().simulation_duration(simulated + 10 * INTERVAL).build();
    for index in 0..hosts {
        sim.host(format!("bmc{index}"), move || async move {
            let any = (IpAddr::from(Ipv4Addr::UNSPECIFIED), 80);
            let listener = ::turmoil::net::TcpListener::bind(any).await?;
            loop {
                let (stream, _) = listener.accept().await?;
                tokio::spawn(async move {
                    let service = hyper_util::service::TowerToHyperService::new(bmc(index));
                    let server = hyper::server::conn::http1::Builder::new();
                    // A client that is done closes the connection.
                    let _ = server.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
    }
    sim.client("client", async move {
        let start = tokio::time::Instant::now();
        while start.elapsed() < simulated {
            for index in 0..hosts {
                let name = format!("bmc{index}");
                let stream = ::turmoil::net::TcpStream::connect((name.as_str(), 80)).await?;
                assert!(poll(TokioIo::new(stream), &name).await > 0);
            }
            tokio::time::sleep(INTERVAL).await;
        }
        Ok(())
    });
    sim.run().expect("turmoil's simulation");
    began.elapsed().as_secs_f64()
}

fn main() {
    let hour = Duration::from_secs(3600);
    let mut out = std::io::stdout();
    let mut report = |hosts: usize, theirs_for: Duration| {
        // The median of three runs of ours; turmoil's one is long enough.
        let mut runs = [(); 3].map(|()| ours(hosts, hour));
        runs.sort_by(f64::total_cmp);
        let ours = runs[1] / hour.as_secs_f64();
        let theirs = turmoil(hosts, theirs_for) / theirs_for.as_secs_f64();
        // Nothing can be done about a closed standard output.
        let _ = writeln!(
            out,
            "{hosts:>4} BMCs: ours {:.0} simulated s per s, turmoil {:.1} (over {theirs_for:?}), ratio {:.0}",
            1.0 / ours,
            1.0 / theirs,
            theirs / ours,
        );
    };
    report(10, hour);
    report(100, Duration::from_secs(5));
}
