//! A machine that has power and boot flags, on a UDP port, for real IPMI clients.
//!
//! `cargo run -p ipmi --example serve -- 9623`, then
//! `ipmitool -I lanplus -C 17 -H 127.0.0.1 -p 9623 -U admin -P password power on`.

use std::error::Error;

use ipmi::{
    Completion, Privilege, Secret,
    command::{BootFlags, BootOption, ChassisStatus, Control, DeviceId, Request},
    server::{Config, Incoming, Reply, Responder, Server, User, Users, serve_on},
};

#[derive(Default)]
struct Machine {
    on: bool,
    boot: BootFlags,
}

impl Responder for Machine {
    fn respond(&mut self, command: &Incoming<'_>) -> Reply {
        match Request::parse(command.net_fn, command.command, command.data) {
            Ok(request) => self.carry_out(request),
            Err(completion) => Reply::refuse(completion),
        }
    }
}

impl Machine {
    fn carry_out(&mut self, request: Request) -> Reply {
        println!("{request:?}");
        match request {
            Request::GetDeviceId => Reply::ok(device().encode()),
            Request::GetChassisStatus => Reply::ok(ChassisStatus::healthy(self.on).encode()),
            Request::ChassisControl(Control::Up) => {
                self.on = true;
                Reply::ok([])
            }
            Request::ChassisControl(Control::Down | Control::Soft) => {
                self.on = false;
                Reply::ok([])
            }
            Request::ChassisControl(Control::Cycle | Control::Reset | Control::Diagnostic) if !self.on => {
                Reply::refuse(Completion::WRONG_STATE)
            }
            Request::ChassisControl(Control::Cycle | Control::Reset | Control::Diagnostic) => Reply::ok([]),
            Request::SetBootOption(option) => {
                if let BootOption::Flags(flags) = option {
                    self.boot = flags;
                }
                Reply::ok([])
            }
            Request::GetBootOption(wanted) if wanted.number == 5 => {
                Reply::ok(BootOption::Flags(self.boot).encode_answer())
            }
            Request::GetBootOption(_) => Reply::refuse(Completion::NOT_AVAILABLE),
        }
    }
}

fn device() -> DeviceId {
    DeviceId {
        device: 0x20,
        revision: 1,
        firmware: (2, 0x34),
        version: 0x02,
        support: 0xbf,
        manufacturer: 0x0157,
        product: 0x1234,
        auxiliary: None,
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let port = std::env::args().nth(1).as_deref().unwrap_or("9623").parse()?;
    let host = wire::real::host("bmc", wire::Seed(1));
    let user = User { password: Secret::new("password")?, privilege: Privilege::Administrator };
    let users = Users::from([("admin".to_owned(), user)]);
    let mut server = Server::new(Config::new(*host.uuid("guid").as_bytes()), host.dice("ipmi"));
    let mut machine = Machine::default();
    let socket = host.udp(port).await?;
    let handle = |now, peer, datagram: &[u8]| server.handle(now, peer, datagram, &users, &mut machine);
    Err(serve_on(&host, &socket, handle).await.into())
}
