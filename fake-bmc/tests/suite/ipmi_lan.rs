//! IPMI, through a client that behaves like ipmitool.

use fake_bmc::{BootMode, BootSource, Fault, Hold, Inert, Power};
use ipmi::{
    CipherSuite, Client, ClientError, Completion, Credentials, NetFn, Privilege, Retry,
    command::{ChassisControl, Control, GetBootOption, GetChassisStatus, GetDeviceId},
};

use crate::world::{PASSWORD, USER, World, config, installed, world};

async fn connect(world: &World, password: &str) -> Result<Client, ClientError> {
    let credentials = Credentials::new(USER, password).unwrap();
    Client::connect(
        &world.client,
        "bmc",
        ipmi::PORT,
        &credentials,
        CipherSuite::C17,
        Privilege::Administrator,
        Retry::ONCE,
    )
    .await
}

async fn session(world: &World) -> Client {
    connect(world, PASSWORD).await.expect("a session")
}

async fn raw(client: &mut Client, command: u8, data: &[u8]) -> Completion {
    client.request(NetFn::CHASSIS, command, data).await.unwrap().completion
}

#[test]
fn power_is_read_and_changed() {
    let mut config = config();
    config.disk = installed();
    world(config, Inert, |world| async move {
        let mut client = session(&world).await;
        assert!(!client.run(&GetChassisStatus).await.unwrap().on);
        for command in [2, 3] {
            assert_eq!(raw(&mut client, 2, &[command]).await, Completion::WRONG_STATE, "it is off");
        }
        client.run(&ChassisControl(Control::Up)).await.unwrap();
        world.wait_for(Power::On).await;
        assert!(client.run(&GetChassisStatus).await.unwrap().on);
        assert_eq!(
            raw(&mut client, 2, &[4]).await,
            Completion::INVALID_FIELD,
            "there is no diagnostic interrupt"
        );
        client.run(&ChassisControl(Control::Down)).await.unwrap();
        assert_eq!(world.bmc.power(), Power::PoweringOff);
        assert!(client.run(&GetChassisStatus).await.unwrap().on, "power good is there until the end");
        world.wait_for(Power::Off).await;
        assert!(!client.run(&GetChassisStatus).await.unwrap().on);
        assert_eq!(world.journal("power")[0]["by"], "ipmi");
        let device = client.run(&GetDeviceId).await.unwrap();
        assert_eq!((device.version, device.firmware), (0x02, (1, 0x00)));
        client.close().await.unwrap();
    });
}

#[test]
fn the_boot_device_is_set_as_ironic_does_it() {
    world(config(), Inert, |world| async move {
        let mut client = session(&world).await;
        // Without it the flags lapse after 60 s.
        assert_eq!(raw(&mut client, 8, &[3, 8]).await, Completion::OK);
        let cases: [(u8, u8, BootSource, Hold, BootMode); 3] = [
            (0xa0, 0x04, BootSource::Pxe, Hold::Once, BootMode::Uefi),
            (0xe0, 0x08, BootSource::Hdd, Hold::Continuous, BootMode::Uefi),
            (0x80, 0x14, BootSource::Cd, Hold::Once, BootMode::Bios),
        ];
        for (flags, device, source, hold, mode) in cases {
            assert_eq!(raw(&mut client, 8, &[5, flags, device, 0, 0, 0]).await, Completion::OK);
            let boot = world.bmc.boot();
            let instead = boot.instead.unwrap();
            assert_eq!((instead.source, instead.hold, boot.mode, instead.lapses), (source, hold, mode, None));
            let read = client.run(&GetBootOption { number: 5 }).await.unwrap();
            assert_eq!(read.encode_answer(), [1, 5, flags, device, 0, 0, 0]);
        }
        assert_eq!(raw(&mut client, 8, &[5, 0x80, 0x18, 0, 0, 0]).await, Completion::INVALID_FIELD, "set-up");
        assert_eq!(raw(&mut client, 9, &[7, 0, 0]).await, Completion::NOT_AVAILABLE);
        assert_eq!(raw(&mut client, 8, &[5, 0, 0, 0, 0, 0]).await, Completion::OK);
        assert_eq!(world.bmc.boot().instead, None);
    });
}

#[test]
fn boot_flags_lapse_after_a_minute() {
    world(config(), Inert, |world| async move {
        let mut client = session(&world).await;
        assert_eq!(raw(&mut client, 8, &[5, 0xa0, 4, 0, 0, 0]).await, Completion::OK);
        world.sleep(59).await;
        assert!(world.bmc.boot().instead.is_some());
        world.sleep(2).await;
        assert_eq!(world.bmc.boot().instead, None);
    });
}

#[test]
fn the_password_is_the_one_of_redfish() {
    world(config(), Inert, |world| async move {
        assert!(connect(&world, "wrong").await.is_err());
        world.bmc.set_password("new");
        assert!(connect(&world, PASSWORD).await.is_err());
        assert!(connect(&world, "new").await.is_ok());
        world.bmc.set_password("longer than the twenty bytes of IPMI");
        assert!(connect(&world, "new").await.is_err(), "nobody can log in by IPMI now");
    });
}

#[test]
fn faults_strike_ipmi_too() {
    world(config(), Inert, |world| async move {
        let fault = |json: &str| -> Fault { serde_json::from_str(json).unwrap() };
        let silent = world.bmc.apply(fault(r#"{"kind":"ipmi-silent"}"#));
        let began = world.client.now();
        assert!(connect(&world, PASSWORD).await.is_err());
        assert_eq!((world.client.now() - began).as_secs(), 10, "as Ironic's ipmitool gives up");
        assert_eq!(world.bmc.touched(silent), 2);
        world.bmc.clear(silent);

        let busy =
            fault(r#"{"kind":"ipmi-completion","code":192,"on":{"request":"power-status","count":1}}"#);
        let busy = world.bmc.apply(busy);
        let mut client = session(&world).await;
        client.run(&GetDeviceId).await.unwrap();
        assert_eq!(raw(&mut client, 1, &[]).await, Completion::NODE_BUSY);
        assert_eq!(raw(&mut client, 1, &[]).await, Completion::OK);
        assert_eq!(world.bmc.touched(busy), 1);

        let ignored = world.bmc.apply(fault(r#"{"kind":"power-ignored"}"#));
        client.run(&ChassisControl(Control::Up)).await.unwrap();
        world.client.sleep(std::time::Duration::from_secs(30)).await;
        assert_eq!(world.bmc.power(), Power::Off);
        assert_eq!(world.bmc.touched(ignored), 1);

        let changed = world.bmc.apply(fault(r#"{"kind":"password-changed","to":"new"}"#));
        assert!(connect(&world, PASSWORD).await.is_err());
        assert_eq!(world.bmc.touched(changed), 1);
        world.bmc.clear(changed);
        assert!(connect(&world, PASSWORD).await.is_ok());
    });
}
