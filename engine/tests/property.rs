//! Whatever the network does short of giving up, the bytes of a connection arrive whole and in order.

use std::{sync::Arc, time::Duration};

use engine::{Config, Effect, Network, Rule, run};
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use wire::Seed;

/// Trouble on the link for some time.
#[derive(Clone, Debug)]
struct Trouble {
    begins: u64,
    lasts: u64,
    to_server: bool,
    effect: Effect,
}

fn effect() -> impl Strategy<Value = Effect> {
    prop_oneof![
        Just(Effect::Unreachable),
        Just(Effect::Hold),
        (0.0..0.6).prop_map(Effect::Loss),
        (1_u64..3_000).prop_map(|delay| Effect::Delay(Duration::from_millis(delay))),
    ]
}

fn trouble() -> impl Strategy<Value = Trouble> {
    (prop_oneof![Just(0), 0_u64..5_000], 1_u64..30_000, any::<bool>(), effect())
        .prop_map(|(begins, lasts, to_server, effect)| Trouble { begins, lasts, to_server, effect })
}

/// A byte that depends on its place, so that a lost, doubled or swapped piece shows.
fn byte(place: usize, salt: usize) -> u8 {
    u8::try_from((place.wrapping_mul(31) + place / 251 + salt) % 256).unwrap_or(0)
}

/// How one side of a connection goes about it.
#[derive(Clone, Copy, Debug)]
struct Manner {
    /// Bytes sent in all.
    total: usize,
    /// Bytes written at once.
    piece: usize,
    /// Bytes read at once by the other side.
    gulp: usize,
    /// Between two pieces, so that the trouble meets the connection at work.
    pause: Duration,
}

fn manner() -> impl Strategy<Value = Manner> {
    (0_usize..300_000, 3_000_usize..90_000, 1_usize..9_000, 0_u64..1_000).prop_map(
        |(total, piece, gulp, pause)| Manner { total, piece, gulp, pause: Duration::from_millis(pause) },
    )
}

async fn send(stream: &mut (impl AsyncWriteExt + Unpin), manner: Manner, salt: usize) {
    let Manner { total, piece: chunk, pause, .. } = manner;
    let bytes: Vec<u8> = (0..total).map(|place| byte(place, salt)).collect();
    for piece in bytes.chunks(chunk) {
        stream.write_all(piece).await.expect("write");
        tokio::time::sleep(pause).await;
    }
    stream.shutdown().await.expect("shut down");
}

async fn receive(stream: &mut (impl AsyncReadExt + Unpin), manner: Manner, salt: usize) {
    let Manner { total, gulp: chunk, .. } = manner;
    let mut buffer = vec![0; chunk];
    let mut place = 0;
    loop {
        let length = stream.read(&mut buffer).await.expect("read");
        if length == 0 {
            break;
        }
        for got in &buffer[..length] {
            assert_eq!(*got, byte(place, salt), "byte {place}");
            place += 1;
        }
    }
    assert_eq!(place, total, "all bytes, then the end");
}

async fn transfer(net: Network, troubles: Vec<Trouble>, there: Manner, back: Manner) {
    let (server, client) = (net.host("server"), net.host("client"));
    for trouble in troubles {
        let (net, host) = (net.clone(), client.clone());
        drop(client.spawn(async move {
            host.sleep(Duration::from_millis(trouble.begins)).await;
            let (from, to) = if trouble.to_server { ("client", "server") } else { ("server", "client") };
            let rule = net.add_rule(Rule {
                from: Some(from.to_owned()),
                to: Some(to.to_owned()),
                effect: trouble.effect,
            });
            host.sleep(Duration::from_millis(trouble.lasts)).await;
            net.remove_rule(rule);
        }));
    }
    let listener = server.listen(7).await.expect("listen");
    let serving = server.spawn(async move {
        let stream = listener.accept().await.expect("accept");
        let (mut reader, mut writer) = tokio::io::split(stream);
        tokio::join!(receive(&mut reader, there, 1), send(&mut writer, back, 2));
    });
    let stream = client.connect("server", 7).await.expect("connect");
    let (mut reader, mut writer) = tokio::io::split(stream);
    tokio::join!(send(&mut writer, there, 1), receive(&mut reader, back, 2));
    serving.await.expect("the server came to its end");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn bytes_arrive_whole_and_in_order(
        seed in any::<u64>(),
        troubles in prop::collection::vec(trouble(), 0..5),
        there in manner(),
        back in manner(),
    ) {
        let config = Config { seed: Seed(seed), ..Config::default() };
        let outcome = run(config, move |net| transfer(net, troubles, there, back));
        prop_assert_eq!(outcome.failure, None);
    }

    /// Clients that give up at any instant leave a server that serves the next one, and a port that can be reopened.
    #[test]
    fn giving_up_at_any_instant_harms_nobody_else(
        seed in any::<u64>(),
        patience in prop::collection::vec(0_u64..400, 1..12),
        loss in 0.0..0.3,
    ) {
        let config = Config { seed: Seed(seed), kernels: 8, ..Config::default() };
        let outcome = run(config, move |net| async move {
            let (server, client) = (net.host("server"), net.host("client"));
            let rule = net.add_rule(Rule { from: None, to: None, effect: Effect::Loss(loss) });
            let serve = |host: wire::Host| {
                let server = host.clone();
                drop(host.spawn(async move {
                    let listener = Arc::new(server.listen(7).await.expect("listen"));
                    loop {
                        let Ok(mut stream) = listener.accept().await else { continue };
                        drop(server.spawn(async move {
                            let mut buffer = [0; 512];
                            while let Ok(length @ 1..) = stream.read(&mut buffer).await {
                                if stream.write_all(&buffer[..length]).await.is_err() {
                                    break;
                                }
                            }
                        }));
                    }
                }));
            };
            serve(server);
            for patience in patience {
                let attempt = async {
                    let mut stream = client.connect("server", 7).await?;
                    stream.write_all(&[1; 5000]).await?;
                    stream.read_exact(&mut [0; 5000]).await
                };
                // It may or may not come to an answer in that time.
                let _ = wire::within(Duration::from_millis(patience), attempt).await;
            }
            net.remove_rule(rule);
            let mut stream = client.connect("server", 7).await.expect("connect");
            stream.write_all(b"still there?").await.expect("write");
            stream.read_exact(&mut [0; 12]).await.expect("read");
            serve(net.restart("server"));
            client.sleep(Duration::from_secs(1)).await;
            client.connect("server", 7).await.expect("connect after a restart");
        });
        prop_assert_eq!(outcome.failure, None);
    }
}
