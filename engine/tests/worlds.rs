//! What code on a simulated network sees, next to what it would see on Linux.

use std::{io, time::Duration};

use engine::{Config, Effect, Failure, Network, Rule, run, simulate};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use wire::{Host, Seed};

const SECOND: Duration = Duration::from_secs(1);

fn both_ways(a: &str, b: &str, effect: &Effect) -> [Rule; 2] {
    let rule = |from: &str, to: &str| Rule {
        from: Some(from.to_owned()),
        to: Some(to.to_owned()),
        effect: effect.clone(),
    };
    [rule(a, b), rule(b, a)]
}

/// Sends back whatever comes, on port 7.
fn echo(host: &Host) {
    let server = host.clone();
    drop(host.spawn(async move {
        let listener = server.listen(7).await.expect("listen");
        while let Ok(mut stream) = listener.accept().await {
            drop(server.spawn(async move {
                let mut buffer = vec![0; 4096];
                while let Ok(length @ 1..) = stream.read(&mut buffer).await {
                    if stream.write_all(&buffer[..length]).await.is_err() {
                        break;
                    }
                }
            }));
        }
    }));
}

async fn exchange(stream: &mut wire::Stream, bytes: &[u8]) -> io::Result<Vec<u8>> {
    stream.write_all(bytes).await?;
    let mut back = vec![0; bytes.len()];
    stream.read_exact(&mut back).await?;
    Ok(back)
}

#[test]
fn bytes_in_flight_survive_a_partition() {
    let took = simulate(Seed(1), |net| async move {
        let (server, client) = (net.host("server"), net.host("client"));
        echo(&server);
        client.sleep(SECOND).await;
        let mut stream = client.connect("server", 7).await.expect("connect");
        exchange(&mut stream, b"hello").await.expect("echo");
        let rules = both_ways("server", "client", &Effect::Unreachable).map(|rule| net.add_rule(rule));
        let healer = net.clone();
        let waiting = client.clone();
        drop(client.spawn(async move {
            waiting.sleep(10 * SECOND).await;
            for rule in rules {
                assert!(healer.remove_rule(rule) > 0 || rule == rules[0]);
            }
        }));
        let began = client.now();
        let (mut reader, mut writer) = tokio::io::split(stream);
        drop(client.spawn(async move { writer.write_all(&[5; 200_000]).await.expect("write") }));
        let mut back = vec![0; 200_000];
        reader.read_exact(&mut back).await.expect("read");
        assert!(back.iter().all(|byte| *byte == 5));
        client.now() - began
    });
    // The time-outs of 0.2 s double: the segment is sent again at 12.6 s.
    assert!(took > Duration::from_millis(12_600) && took < 13 * SECOND, "{took:?}");
}

#[test]
fn connecting_fails_as_on_linux() {
    simulate(Seed(1), |net| async move {
        let (_server, client) = (net.host("server"), net.host("client"));
        let error = client.connect("server", 81).await.expect_err("nothing listens");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        let error = client.connect("nowhere", 81).await.expect_err("no such name");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);

        net.crash("server");
        let began = client.now();
        let error = client.connect("server", 7).await.expect_err("nobody answers");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!((client.now() - began).as_secs(), 127);

        let server = net.restart("server");
        echo(&server);
        client.connect("server", 7).await.expect("it is up again");
    });
}

#[test]
fn a_syn_that_was_lost_is_sent_again() {
    let took = simulate(Seed(1), |net| async move {
        let (server, client) = (net.host("server"), net.host("client"));
        echo(&server);
        net.crash("server");
        let (later, began) = (net.clone(), client.now());
        let waiting = client.clone();
        drop(client.spawn(async move {
            waiting.sleep(10 * SECOND).await;
            echo(&later.restart("server"));
        }));
        client.connect("server", 7).await.expect("connect once it is up");
        client.now() - began
    });
    assert_eq!(took.as_secs(), 15, "SYNs are sent at 0, 1, 3, 7, 15 s");
}

#[test]
fn a_connection_to_a_host_that_came_back_is_reset() {
    simulate(Seed(1), |net| async move {
        let (server, client) = (net.host("server"), net.host("client"));
        echo(&server);
        client.sleep(SECOND).await;
        let mut stream = client.connect("server", 7).await.expect("connect");
        exchange(&mut stream, b"hello").await.expect("echo");
        net.crash("server");
        let idle = wire::within(60 * SECOND, stream.read_u8()).await;
        assert!(idle.is_none(), "a power loss sends no FIN: {idle:?}");
        echo(&net.restart("server"));
        let error =
            exchange(&mut stream, b"hello").await.expect_err("the new kernel knows no such connection");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        let mut stream = client.connect("server", 7).await.expect("connect anew");
        exchange(&mut stream, b"hello").await.expect("echo");
    });
}

#[test]
fn a_client_that_came_back_can_connect_at_once() {
    simulate(Seed(1), |net| async move {
        let (server, mut client) = (net.host("server"), net.host("client"));
        echo(&server);
        for _ in 0..5 {
            client.sleep(SECOND).await;
            let mut stream = client.connect("server", 7).await.expect("connect");
            exchange(&mut stream, b"hello").await.expect("echo");
            net.crash("client");
            client = net.restart("client");
            let began = client.now();
            client.connect("server", 7).await.expect("connect");
            assert!(client.now() - began < SECOND);
        }
    });
}

#[test]
fn an_unacknowledged_connection_times_out() {
    let took = simulate(Seed(1), |net| async move {
        let (server, client) = (net.host("server"), net.host("client"));
        echo(&server);
        client.sleep(SECOND).await;
        let mut stream = client.connect("server", 7).await.expect("connect");
        net.crash("server");
        let began = client.now();
        let error = exchange(&mut stream, b"hello").await.expect_err("nobody acknowledges");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        client.now() - began
    });
    assert_eq!(took.as_secs(), 924, "tcp_retries2 = 15");
}

#[test]
fn refused_reset_and_held_look_so_to_the_client() {
    simulate(Seed(1), |net| async move {
        let (server, client) = (net.host("server"), net.host("client"));
        echo(&server);
        client.sleep(SECOND).await;
        let mut open = client.connect("server", 7).await.expect("connect");
        exchange(&mut open, b"hello").await.expect("echo");
        let to_server = |effect| Rule { from: None, to: Some("server".to_owned()), effect };

        let rule = net.add_rule(to_server(Effect::Refused));
        let error = client.connect("server", 7).await.expect_err("refused");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        let error = exchange(&mut open, b"hello").await.expect_err("the process is gone");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        assert_eq!(net.remove_rule(rule), 2);

        let rule = net.add_rule(to_server(Effect::Reset));
        let mut stream = client.connect("server", 7).await.expect("it accepts");
        let error = exchange(&mut stream, b"hello").await.expect_err("then it resets");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        assert_eq!(net.remove_rule(rule), 1);

        let rule = net.add_rule(to_server(Effect::Hold));
        let began = client.now();
        let (later, waiting) = (net.clone(), client.clone());
        drop(client.spawn(async move {
            waiting.sleep(50 * SECOND).await;
            later.remove_rule(rule);
        }));
        let mut stream = client.connect("server", 7).await.expect("connect once released");
        exchange(&mut stream, b"hello").await.expect("echo");
        assert_eq!((client.now() - began).as_secs(), 50);
    });
}

#[test]
fn a_client_whose_services_are_down_can_still_connect() {
    simulate(Seed(1), |net| async move {
        let (server, client) = (net.host("server"), net.host("client"));
        echo(&server);
        client.sleep(SECOND).await;
        for effect in [Effect::Refused, Effect::Reset] {
            let rule = net.add_rule(Rule { from: None, to: Some("client".to_owned()), effect });
            let mut stream = client.connect("server", 7).await.expect("connect");
            exchange(&mut stream, b"hello").await.expect("echo");
            assert_eq!(net.remove_rule(rule), 0);
        }
    });
}

#[test]
fn a_link_can_fail_one_way() {
    simulate(Seed(1), |net| async move {
        let (server, client) = (net.host("server"), net.host("client"));
        let listening = server.udp(623).await.expect("bind");
        let socket = client.udp(0).await.expect("bind");
        let target = client.resolve("server", 623).await.expect("resolve");
        let [to_client, _] = both_ways("server", "client", &Effect::Unreachable);
        let rule = net.add_rule(to_client);
        socket.send_to(b"ping", target).await.expect("send");
        let mut buffer = [0; 16];
        let (length, from) = listening.recv_from(&mut buffer).await.expect("the request arrives");
        listening.send_to(&buffer[..length], from).await.expect("send");
        let answer = wire::within(10 * SECOND, socket.recv_from(&mut buffer)).await;
        assert!(answer.is_none(), "the answer does not");
        assert_eq!(net.remove_rule(rule), 1);
    });
}

#[test]
fn datagrams_are_lost_or_refused() {
    simulate(Seed(1), |net| async move {
        let (server, client) = (net.host("server"), net.host("client"));
        let socket = client.udp(0).await.expect("bind");
        let target = client.resolve("server", 623).await.expect("resolve");
        socket.send_to(b"ping", target).await.expect("send");
        let error = socket.recv_from(&mut [0; 16]).await.expect_err("nobody listens");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);

        let listening = server.udp(623).await.expect("bind");
        socket.send_to(b"ping", target).await.expect("send");
        let mut buffer = [0; 16];
        let (length, from) = listening.recv_from(&mut buffer).await.expect("receive");
        assert_eq!((&buffer[..length], from.ip()), (&b"ping"[..], client.address()));
        listening.send_to(b"pong", from).await.expect("send");
        let (length, from) = socket.recv_from(&mut buffer).await.expect("receive");
        assert_eq!((&buffer[..length], from), (&b"pong"[..], target));

        net.add_rule(Rule { from: None, to: Some("server".to_owned()), effect: Effect::Unreachable });
        socket.send_to(b"ping", target).await.expect("send");
        let waited = wire::within(100 * SECOND, listening.recv_from(&mut buffer)).await;
        assert!(waited.is_none(), "UDP loss is loss");
    });
}

#[test]
fn a_stream_may_end_with_a_reset_on_purpose() {
    simulate(Seed(1), |net| async move {
        let (server, client) = (net.host("server"), net.host("client"));
        let listener = server.listen(7).await.expect("listen");
        let connecting = client.clone();
        let reading = client.spawn(async move {
            let mut stream = connecting.connect("server", 7).await.expect("connect");
            let first = stream.read_u8().await;
            (first.ok(), stream.read_u8().await.map_err(|error| error.kind()))
        });
        let mut stream = listener.accept().await.expect("accept");
        stream.write_all(b"x").await.expect("write");
        server.sleep(SECOND).await;
        stream.reset_switch().turn_on();
        drop(stream);
        assert_eq!(reading.await, Some((Some(b'x'), Err(io::ErrorKind::ConnectionReset))));
    });
}

/// A world with some chance in it: HTTP-like chatter over a lossy network, hash seeds, uuids, log lines.
async fn chatter(net: Network) -> Vec<String> {
    let (server, client) = (net.host("server"), net.host("client"));
    net.add_rule(Rule { from: None, to: None, effect: Effect::Loss(0.05) });
    echo(&server);
    client.sleep(SECOND).await;
    let mut seen = Vec::new();
    for round in 0..20_u8 {
        let Ok(mut stream) = client.connect("server", 7).await else { continue };
        let back = exchange(&mut stream, &[round; 3000]).await;
        tracing::info!(round, ok = back.is_ok(), "exchanged");
        client.note("round", "chatter", serde_json::json!({ "round": round, "at": client.now() }));
    }
    #[expect(clippy::disallowed_types, reason = "its order is what is under test")]
    let map: std::collections::HashMap<u32, u32> = (0..100).map(|number| (number, number)).collect();
    seen.push(format!("{:?}", map.keys().take(10).collect::<Vec<_>>()));
    seen.push(client.uuid("thing").to_string());
    #[expect(clippy::disallowed_methods, reason = "what it answers is under test")]
    let clock = std::time::SystemTime::now();
    seen.push(format!("{clock:?}"));
    seen
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let outcome = |seed| run(Config { seed: Seed(seed), ..Config::default() }, chatter);
    let first = outcome(1);
    assert!(first.failure.is_none(), "{:?}", first.failure);
    assert!(first.records.iter().any(|record| matches!(record.what, engine::What::Log { .. })));
    for _ in 0..3 {
        let again = outcome(1);
        assert_eq!((&again.hash, &again.value, &again.records), (&first.hash, &first.value, &first.records));
    }
    assert_ne!(outcome(2).hash, first.hash);
    assert_ne!(outcome(2).value, first.value);
}

#[test]
fn a_panic_fails_the_world_and_nothing_else() {
    let outcome = run(Config::default(), |net| async move {
        let host = net.host("bad");
        let sleeping = host.clone();
        drop(host.spawn(async move {
            sleeping.sleep(5 * SECOND).await;
            panic!("on purpose");
        }));
        net.host("good").sleep(100 * SECOND).await;
    });
    match outcome.failure {
        Some(Failure::Panic { host, at, message }) => {
            assert_eq!((host.as_str(), at.0), ("bad", 5 * SECOND));
            assert!(message.contains("on purpose") && message.contains("worlds.rs"), "{message}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_loop_that_never_waits_is_a_livelock() {
    let config = Config { poll_budget: 10_000, ..Config::default() };
    let outcome = run(config, |net| async move {
        let host = net.host("busy");
        drop(host.spawn(async {
            loop {
                tokio::task::yield_now().await;
            }
        }));
        host.sleep(SECOND).await;
    });
    assert!(matches!(outcome.failure, Some(Failure::Livelock { host, .. }) if host == "busy"));
}

#[test]
fn a_world_in_which_nothing_can_happen_ends() {
    let outcome = run(Config::default(), |_| std::future::pending::<()>());
    assert!(matches!(outcome.failure, Some(Failure::Stalled { .. })), "{:?}", outcome.failure);
}
