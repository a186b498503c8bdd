//! A body of the SDK's that holds on to its session while it lasts, and that may end with the process.

use std::pin::Pin;
use std::task::Context;
use std::task::Poll;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http_body::Frame;
use http_body::SizeHint;

use super::sessions::InUse;
use crate::shutdown::Shutdown;

/// How long a stream without an end of its own may still say goodbye once the end of the process has begun.
const GOODBYE: Duration = Duration::from_millis(500);

/// The body.
pub(super) struct Held {
    body: Body,
    /// Dropped with the body.
    _in_use: Option<InUse>,
    end: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Held {
    /// A body whose session is in use as long as it lasts.
    pub(super) fn new(body: Body, in_use: Option<InUse>) -> Self {
        Self {
            body,
            _in_use: in_use,
            end: None,
        }
    }

    /// The same, of a stream that nothing would end while the process drains.
    pub(super) fn ending_with(self, shutdown: &Shutdown) -> Self {
        let shutdown = shutdown.clone();
        let end = async move {
            shutdown.begun().await;
            tokio::time::sleep(GOODBYE).await;
        };
        Self {
            end: Some(Box::pin(end)),
            ..self
        }
    }
}

impl http_body::Body for Held {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if let Some(end) = &mut self.end
            && end.as_mut().poll(context).is_ready()
        {
            self.end = None;
            self.body = Body::empty();
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
