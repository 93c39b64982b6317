//! Connections of clients, within bounds of number and time.

use std::borrow::Cow;
use std::convert::Infallible;
use std::fmt::Display;
use std::future::poll_fn;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use http_body_util::channel::Channel;
use http_body_util::{Either, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    ACCEPT, ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue,
    LOCATION, REFERRER_POLICY, SET_COOKIE, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use synod_admin::visible;
use synod_tls::{ServiceCertificates, ServiceTls, TlsError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::callers::{Caller, Callers};
use crate::dashboard::feed::{Feed, TooManyViewers};
use crate::dashboard::files;
use crate::encryption::complaints::Complaints;
use crate::encryption::handshake::{ClientCertificate, Greeting, greet};
use crate::entrance::{Entrance, entrance};
use crate::metrics::Format;
use crate::routes::{self, Answer, Page};
use crate::{Access, Asker, ReadOnly};

/// Port on which an agent listens unless it is told otherwise.
pub const DEFAULT_PORT: u16 = 4580;
/// Time limit for the head of a request, idle time before it included.
const HEAD_LIMIT: Duration = Duration::from_secs(30);
/// Longest life of a connection. A client that takes no answer holds it no longer.
const CONNECTION_LIMIT: Duration = Duration::from_secs(600);
/// Bytes of the largest head of a request.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Pause after the system has refused a connection: it has too many open files.
const PAUSE: Duration = Duration::from_millis(200);

#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error("cannot listen on {listen}: {source}. Choose another address by --listen")]
    Listen {
        listen: SocketAddr,
        source: io::Error,
    },
    #[error("cannot start: {0}")]
    Start(#[from] io::Error),
}

/// An agent that listens. It serves once it runs.
pub struct Agent {
    runtime: tokio::runtime::Runtime,
    listener: TcpListener,
    serving: Arc<Serving>,
    end: Signal,
    reload: Signal,
}

struct Serving {
    access: Access,
    asker: Asker,
    feed: Arc<Feed>,
    complaints: Complaints,
}

impl Agent {
    pub fn listen(access: Access, asker: Asker) -> Result<Agent, AgentError> {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_io().enable_time().build()?;
        let listen = access.listen();
        let listener = runtime.block_on(TcpListener::bind(listen));
        let listener = listener.map_err(|source| AgentError::Listen { listen, source })?;
        // Looks begin when the runtime runs. From here on signals wait until it does.
        let guard = runtime.enter();
        let feed = Feed::start(asker.clone());
        let end = signal(SignalKind::terminate())?;
        let reload = signal(SignalKind::hangup())?;
        drop(guard);
        let serving = Arc::new(Serving {
            access,
            asker,
            feed,
            complaints: Complaints::default(),
        });
        Ok(Agent {
            runtime,
            listener,
            serving,
            end,
            reload,
        })
    }

    /// The address it listens on, with the port that the system chose if none was.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    pub fn scheme(&self) -> &'static str {
        self.serving.access.scheme()
    }

    /// Serves until the process is told to end (SIGTERM). SIGHUP has the files of TLS read again.
    pub fn run(self, read_only: Option<ReadOnly>) {
        let Agent {
            runtime,
            listener,
            serving,
            mut end,
            reload,
        } = self;
        runtime.block_on(async {
            tokio::spawn(follow_orders(reload, serving.clone()));
            if let Some(read_only) = read_only {
                tokio::spawn(read_only.keep(serving.asker.clone()));
            }
            tokio::spawn(take_connections(listener, serving));
            end.recv().await;
        });
    }
}

/// Reads the files of TLS at each SIGHUP, for as long as the process runs.
async fn follow_orders(mut reload: Signal, serving: Arc<Serving>) {
    while reload.recv().await.is_some() {
        match serving.access.certificates() {
            Some(certificates) => say(certificates.read_again()),
            None => say("there is nothing to read again: this agent does not speak TLS"),
        }
    }
}

fn say(line: impl Display) {
    // An agent whose output is read by no process serves all the same.
    let _ = writeln!(io::stderr(), "synod agent: {}", visible(&line.to_string()));
}

async fn take_connections(listener: TcpListener, serving: Arc<Serving>) {
    let callers = Arc::new(Callers::default());
    loop {
        let Ok((stream, client)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let serving = serving.clone();
        let caller = Arc::new(callers.arrived(client.ip()));
        tokio::spawn(async move {
            let served = serve(stream, client, serving, caller.clone());
            // A connection that lasts too long is closed.
            let served = pin!(tokio::time::timeout(CONNECTION_LIMIT, served));
            ends_first(served, pin!(caller.has_to_end())).await;
        });
    }
}

/// Waits until one of the two is done.
async fn ends_first(mut one: Pin<&mut impl Future>, mut other: Pin<&mut impl Future>) {
    poll_fn(|context| {
        if one.as_mut().poll(context).is_ready() || other.as_mut().poll(context).is_ready() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}

async fn serve(stream: TcpStream, client: SocketAddr, serving: Arc<Serving>, caller: Arc<Caller>) {
    let Some(certificates) = serving.access.certificates() else {
        return speak(stream, serving, caller, ClientCertificate::None).await;
    };
    let tls = match certificates_now(certificates) {
        Ok(tls) => tls,
        Err(error) => return serving.complain(client, &error.to_string()),
    };
    match greet(stream, &tls).await {
        Ok(Greeting::Encrypted(stream, shown)) => speak(stream, serving, caller, shown).await,
        Ok(Greeting::Clear(stream)) => {
            serving.complain(client, "it speaks HTTP in clear: have it ask for https://");
            refuse_clear(stream).await;
        }
        Ok(Greeting::Silent) => {}
        Err(why) => serving.complain(client, &why),
    }
}

/// Certificates for a new connection: the files as they are now, if usable.
fn certificates_now(certificates: &ServiceCertificates) -> Result<Arc<ServiceTls>, Arc<TlsError>> {
    if let Some(reading) = certificates.follow_files(Instant::now()) {
        say(reading);
    }
    certificates.in_use()
}

async fn speak<S>(
    stream: S,
    serving: Arc<Serving>,
    caller: Arc<Caller>,
    certificate: ClientCertificate,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let service = service_fn(move |request| {
        let (serving, caller) = (serving.clone(), caller.clone());
        async move { Ok::<_, Infallible>(serving.answer(request, certificate, &caller).await) }
    });
    // What a client breaks off concerns that client alone.
    let _ = http().serve_connection(TokioIo::new(stream), service).await;
}

/// Tells a client in clear, which is all that it reads, that it has to encrypt.
async fn refuse_clear(stream: TcpStream) {
    let service = service_fn(|_| async {
        let words = "This agent speaks TLS: ask for https:// instead of http://.";
        let response = text(Answer::sentence(StatusCode::BAD_REQUEST, words));
        Ok::<_, Infallible>(last(response))
    });
    let _ = http().serve_connection(TokioIo::new(stream), service).await;
}

fn http() -> http1::Builder {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEAD_LIMIT)
        .max_buf_size(HEAD_BYTES_MAX);
    http
}

/// The body of an answer: a text, or messages as they come.
type Body = Either<Full<Bytes>, Channel<Bytes>>;

impl Serving {
    /// A line for the journal about a client that gets no connection.
    fn complain(&self, client: SocketAddr, why: &str) {
        let text = format!("{} gets no page: {why}", client.ip().to_canonical());
        if let Some(line) = self.complaints.line(Instant::now(), &text) {
            say(line);
        }
    }

    async fn answer(
        &self,
        request: Request<Incoming>,
        certificate: ClientCertificate,
        caller: &Caller,
    ) -> Response<Body> {
        let uri = request.uri();
        match entrance(&self.access, certificate, uri, request.headers()) {
            Entrance::Open => {}
            Entrance::Welcome { cookie, path } => return welcome(&cookie, &path),
            Entrance::Unknown => return last(text(unknown(&self.access))),
            Entrance::WrongName => return last(text(wrong_name())),
        }
        if !caller.is_let_in() {
            let words = "Too many connections to this agent are open: close some.";
            return last(text(Answer::sentence(
                StatusCode::SERVICE_UNAVAILABLE,
                words,
            )));
        }
        match routes::page(request.method(), uri.path(), uri.query()) {
            Ok(Page::Health(check)) => text(routes::health_of(check, &self.asker.status().await)),
            Ok(Page::RelayHealth) => {
                let seen = self.asker.status().await;
                text(routes::relay_health(&seen, &self.asker.relay().await))
            }
            Ok(Page::Metrics) => {
                let certificates = self.access.certificates();
                let in_use = certificates.and_then(|files| files.in_use().ok());
                let until = in_use.map(|tls| tls.valid_until_unix());
                let accept = request.headers().get_all(ACCEPT).iter();
                let format = Format::asked_for(accept.map(HeaderValue::as_bytes));
                let seen = self.asker.status().await;
                // A server that is no relay refuses the question.
                let relay = self.asker.relay().await.ok();
                text(routes::metrics(&seen, relay.as_deref(), until, format))
            }
            Ok(Page::File(file)) => of_the_dashboard(text(routes::file(file))),
            Ok(Page::Events) => self.events(),
            Err(refused) => text(refused),
        }
    }

    fn events(&self) -> Response<Body> {
        match self.feed.watch() {
            Ok(messages) => {
                let mut response = Response::new(Either::Right(messages));
                let kind = HeaderValue::from_static("text/event-stream");
                response.headers_mut().insert(CONTENT_TYPE, kind);
                of_the_dashboard(with_common_headers(response))
            }
            Err(TooManyViewers) => {
                let words = "Too many pages of this agent are open: close some.";
                text(Answer::sentence(StatusCode::SERVICE_UNAVAILABLE, words))
            }
        }
    }
}

fn unknown(access: &Access) -> Answer {
    let token = "Show the agent's token: Authorization: Bearer TOKEN. In a browser, open \
                 /?token=TOKEN once, by typing or pasting the address.";
    let certificate = "Show a certificate that one of the agent's authorities for clients has \
                       signed (curl: --cert FILE --key FILE).";
    match (access.has_token(), access.knows_certificates()) {
        (true, false) => Answer::sentence(StatusCode::UNAUTHORIZED, token),
        (true, true) => {
            let words = format!("{token} Or: {certificate}");
            Answer::sentence(StatusCode::UNAUTHORIZED, words)
        }
        // HTTP has no way to ask for a certificate, which 401 would need.
        (false, _) => Answer::sentence(StatusCode::FORBIDDEN, certificate),
    }
}

fn wrong_name() -> Answer {
    let words = "This agent has no token, so it answers to the addresses of this machine only, as \
                 127.0.0.1, and to localhost. Ask for one of these, or give it a token \
                 (--token-file) or TLS (--tls-cert).";
    Answer::sentence(StatusCode::MISDIRECTED_REQUEST, words)
}

/// Sends a browser on, without the token in the address.
fn welcome(cookie: &str, path: &str) -> Response<Body> {
    let (Ok(cookie), Ok(path)) = (HeaderValue::from_str(cookie), HeaderValue::from_str(path))
    else {
        let words = "This path cannot be sent on.";
        return text(Answer::sentence(StatusCode::BAD_REQUEST, words));
    };
    let words = "The address without the token shows the page now.";
    let mut response = text(Answer::sentence(StatusCode::SEE_OTHER, words));
    response.headers_mut().insert(SET_COOKIE, cookie);
    response.headers_mut().insert(LOCATION, path);
    of_the_dashboard(response)
}

fn text(answer: Answer) -> Response<Body> {
    let body = match answer.body {
        Cow::Borrowed(text) => Bytes::from_static(text.as_bytes()),
        Cow::Owned(text) => Bytes::from(text),
    };
    let mut response = Response::new(Either::Left(Full::new(body)));
    *response.status_mut() = answer.status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(answer.kind));
    match answer.status {
        StatusCode::UNAUTHORIZED => {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        StatusCode::METHOD_NOT_ALLOWED => {
            headers.insert(ALLOW, HeaderValue::from_static("GET, HEAD, OPTIONS"));
        }
        _ => {}
    }
    with_common_headers(response)
}

fn with_common_headers(mut response: Response<Body>) -> Response<Body> {
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// The last answer of its connection.
fn last(mut response: Response<Body>) -> Response<Body> {
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(CONNECTION, close);
    response
}

/// Headers of the dashboard, and the end of its connection: one that is kept for a page that might
/// be opened later would take the place of a check.
fn of_the_dashboard(mut response: Response<Body>) -> Response<Body> {
    let headers = response.headers_mut();
    headers.insert(
        CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(files::POLICY),
    );
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    last(response)
}
