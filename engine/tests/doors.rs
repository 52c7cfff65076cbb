//! Real clients reach a live world.

use engine::{Config, Pace, run};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

#[test]
fn a_real_client_reaches_a_simulated_server() {
    let config = Config { pace: Pace::Live, ..Config::default() };
    let outcome = run(config, |net| async move {
        let server = net.host("server");
        let listener = server.listen(7).await.expect("listen");
        let datagrams = server.udp(623).await.expect("bind");
        drop(server.spawn(async move {
            let mut stream = listener.accept().await.expect("accept");
            let mut buffer = [0; 4];
            stream.read_exact(&mut buffer).await.expect("read");
            stream.write_all(&buffer).await.expect("write");
            let (length, from) = datagrams.recv_from(&mut buffer).await.expect("receive");
            datagrams.send_to(&buffer[..length], from).await.expect("send");
        }));
        // An hour passes at once before the world goes live.
        server.sleep(std::time::Duration::from_secs(3600)).await;
        net.go_live().expect("go live");
        let any = "127.0.0.1:0".parse().expect("an address");
        let tcp = net.open_tcp_door(any, "server", 7).await.expect("open");
        let udp = net.open_udp_door(any, "server", 623).await.expect("open");

        let mut client = tokio::net::TcpStream::connect(tcp).await.expect("connect");
        client.write_all(b"ping").await.expect("write");
        let mut back = [0; 4];
        client.read_exact(&mut back).await.expect("read");
        let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await.expect("bind");
        socket.send_to(b"pong", udp).await.expect("send");
        let (length, _) = socket.recv_from(&mut back).await.expect("receive");
        (length, back)
    });
    assert_eq!(outcome.failure, None);
    assert_eq!(outcome.value, Some((4, *b"pong")));
}

#[test]
fn there_are_no_doors_into_virtual_time() {
    let outcome = run(Config::default(), |net| async move {
        let any = "127.0.0.1:0".parse().expect("an address");
        net.open_tcp_door(any, "server", 7).await.map_err(|error| error.kind())
    });
    assert_eq!(outcome.value, Some(Err(std::io::ErrorKind::Unsupported)));
    let outcome = run(Config::default(), |net| async move { net.go_live().map_err(|error| error.kind()) });
    assert_eq!(outcome.value, Some(Err(std::io::ErrorKind::Unsupported)));
}
