//! Asks a real BMC who it is and whether its machine is on.
//!
//! `IPMI_PASSWORD=… cargo run -p ipmi --example chassis -- HOST PORT USER SUITE`, e.g. `192.0.2.7 623 admin 17`.

use std::error::Error;

use ipmi::{
    CipherSuite, Client, Credentials, Privilege, Retry,
    command::{GetBootOption, GetChassisStatus, GetDeviceId, GetSystemGuid},
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, port, user, suite] = &arguments[..] else {
        return Err("usage: chassis HOST PORT USER SUITE, with the password in IPMI_PASSWORD".into());
    };
    let credentials = Credentials::new(user, std::env::var("IPMI_PASSWORD")?)?;
    let suite = CipherSuite::from_number(suite.parse()?).ok_or("this cipher suite is not supported")?;
    let host = wire::real::host("console", wire::Seed(std::process::id().into()));
    let (port, privilege) = (port.parse()?, Privilege::Administrator);
    let mut client =
        Client::connect(&host, address, port, &credentials, suite, privilege, Retry::default()).await?;
    client.probe().await?;
    println!("{:?}", client.run(&GetDeviceId).await?);
    println!("GUID {:02x?}", client.run(&GetSystemGuid).await?);
    println!("{:?}", client.run(&GetChassisStatus).await?);
    println!("{:?}", client.run(&GetBootOption { number: 5 }).await?);
    client.close().await?;
    Ok(())
}
