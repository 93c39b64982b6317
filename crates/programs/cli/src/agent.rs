//! `synod agent`: health checks and metrics of a server over HTTP, by a process of its own.

use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::Args;
use synod_admin::service_manager::ServiceManager;
use synod_agent::{
    Access, Agent, AgentError, Asker, DEFAULT_PORT, ExposureError, ReadOnly, Token, TokenError,
};
use synod_tls::{ServiceCertificates, TlsError, TlsFiles, TlsSettingNames};
use thiserror::Error;

use crate::operate;

/// Arguments of `synod agent`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub struct AgentArgs {
    #[command(flatten)]
    place: operate::PlaceArgs,
    /// Address and port to listen on
    ///
    /// An address that other machines reach needs --token-file or --tls-cert.
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        default_value_t = SocketAddr::from((Ipv4Addr::LOCALHOST, DEFAULT_PORT))
    )]
    listen: SocketAddr,
    /// File with a token that clients must show (Authorization: Bearer TOKEN)
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    #[command(flatten)]
    tls: TlsArgs,
    #[command(flatten)]
    read_only: ReadOnlyArgs,
}

/// Arguments about the server's `read_only`.
#[derive(Debug, Args)]
#[group(skip)]
struct ReadOnlyArgs {
    /// Keep the server's read_only ON unless it is the writer (synod.writers=leader)
    ///
    /// For proxies and checks that look at that variable. Needs an account:
    /// docs/operating/single-primary.md.
    #[arg(long)]
    manage_read_only: bool,
    /// Option file of the program mariadb with that account
    #[arg(long, value_name = "FILE", requires = "manage_read_only")]
    account_file: Option<PathBuf>,
    /// When the server stops being the writer, end its clients' sessions: pools reconnect
    #[arg(long, requires = "manage_read_only")]
    end_sessions: bool,
}

impl ReadOnlyArgs {
    fn work(&self) -> Option<ReadOnly> {
        self.manage_read_only.then(|| ReadOnly {
            account_file: self.account_file.clone(),
            ends_sessions: self.end_sessions,
        })
    }
}

/// Arguments about TLS. Those without "tls" in their names are for the way to another member.
#[derive(Debug, Args)]
#[group(skip)]
struct TlsArgs {
    /// Serve over TLS (https): the certificate that clients see
    ///
    /// A PEM file, with the certificates between it and its authority. New files are read by
    /// themselves.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Key of that certificate; not readable for every user
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// File whose first line decrypts that key
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key_password_file: Option<PathBuf>,
    /// Authorities that sign clients' certificates; such a certificate stands for the token
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_client_ca: Option<PathBuf>,
}

const TLS_NAMES: TlsSettingNames = TlsSettingNames {
    certificate: "--tls-cert",
    key: "--tls-key",
    authorities: "--tls-client-ca",
    password: "--tls-key-password-file",
    ciphers: "the ciphers",
    switch: "--tls-cert",
};

impl TlsArgs {
    /// The files, if the agent is to speak TLS.
    fn files(&self) -> Option<TlsFiles> {
        Some(TlsFiles {
            certificate: self.tls_cert.clone()?,
            key: self.tls_key.clone()?,
            authorities: self.tls_client_ca.clone(),
            password: self.tls_key_password_file.clone(),
            ciphers: String::new(),
            names: TLS_NAMES,
        })
    }
}

const EXAMPLE: &str = "\
Runs as root, as the user that the server runs as, or as one in the group synod-status: others may
not ask a server. The manual has a unit for systemd, and what HAProxy, keepalived,
Kubernetes and Prometheus need: docs/operating/agent.md.

Example, for this machine only:

  synod agent
  curl -i http://127.0.0.1:4580/health/writer
  curl -i 'http://127.0.0.1:4580/health/reader?max_lag_ms=1000'

For other machines:

  (umask 077; openssl rand -hex 32 > /etc/synod/agent.token)
  synod agent --listen 0.0.0.0:4580 --token-file /etc/synod/agent.token \\
      --tls-cert /etc/synod/agent.pem --tls-key /etc/synod/agent.key

The agent of a member on another machine:

  synod agent --member db2:4567 --secret-file /etc/synod/group.secret

Exit codes:
  0  it was told to end (SIGTERM)
  1  it cannot start, see the message
  2  wrong usage
  4  refused: other machines could ask without a token, or the token or the key is open to all";

#[derive(Debug, Error)]
pub enum AgentCommandError {
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Exposure(#[from] ExposureError),
    #[error(transparent)]
    Agent(#[from] AgentError),
}

impl AgentCommandError {
    pub fn exit_code(&self) -> u8 {
        match self {
            AgentCommandError::Token(TokenError::Unreadable { .. })
            | AgentCommandError::Agent(_) => 1,
            AgentCommandError::Token(_)
            | AgentCommandError::Tls(TlsError::OpenKey { .. })
            | AgentCommandError::Exposure(_) => 4,
            AgentCommandError::Tls(_) => 1,
        }
    }
}

/// Runs the agent until the process is told to end; gives the exit code. Its server need not run
/// yet: until then the checks say so.
pub fn run(arguments: &AgentArgs) -> Result<u8, AgentCommandError> {
    let token = arguments
        .token_file
        .as_deref()
        .map(Token::read)
        .transpose()?;
    let files = arguments.tls.files();
    let certificates = files.map(ServiceCertificates::read).transpose()?;
    let access = Access::new(arguments.listen, token, certificates)?;
    for warning in access.warnings() {
        // As below.
        let _ = writeln!(io::stderr(), "synod agent: {warning}");
    }
    let mut finder = operate::Finder::new(arguments.place.clone());
    let connect = move || finder.connect().map_err(|error| error.to_string());
    let asker = Asker::start(Box::new(connect)).map_err(AgentError::from)?;
    let agent = Agent::listen(access, asker)?;
    announce(&agent).map_err(AgentError::from)?;
    // Not told, it ends the agent after its limit for starts: the journal has to say why.
    if let Err(error) = tell_ready() {
        let _ = writeln!(
            io::stderr(),
            "synod agent: cannot tell the service manager (NOTIFY_SOCKET) that the start is over: \
             {error}"
        );
    }
    agent.run(arguments.read_only.work());
    Ok(0)
}

/// Says where the agent listens, for the journal and for tests that let the system choose a port.
fn announce(agent: &Agent) -> io::Result<()> {
    let (scheme, address) = (agent.scheme(), agent.address()?);
    let mut output = io::stdout().lock();
    // An agent whose output is read by no process serves all the same.
    let _ = writeln!(output, "synod agent: listening on {scheme}://{address}");
    let _ = output.flush();
    Ok(())
}

/// Tells the service manager, if one has started it, that connections are accepted.
fn tell_ready() -> io::Result<()> {
    match ServiceManager::from_environment()? {
        Some(manager) => manager.ready(),
        None => Ok(()),
    }
}
