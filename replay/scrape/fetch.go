package scrape

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/agentx/agentx/internal/secrets"
)

// fetcher asks for one page, one request at a time.
type fetcher struct {
	client  *http.Client
	url     *url.URL // without user and password
	header  http.Header
	secrets *secrets.Filter
	text    bytes.Buffer // of the latest answer
}

// newFetcher returns a fetcher of a page, which is valid.
func newFetcher(p Page, transport http.RoundTripper) *fetcher {
	u, _ := url.Parse(p.URL) // Validate has parsed it
	f := &fetcher{url: u, header: p.Header.Clone(), secrets: secretsOf(u, p.Header)}
	if f.header == nil {
		f.header = http.Header{}
	}
	f.header.Set("Accept", "text/plain;version=0.0.4;q=1,*/*;q=0.1")
	if user := u.User; user != nil {
		password, _ := user.Password()
		f.header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password)))
		u.User = nil
	}
	f.client = &http.Client{Transport: transport, CheckRedirect: f.checkRedirect}
	return f
}

// moveTo asks for another page of the same server from now on.
func (f *fetcher) moveTo(page string) {
	if u, err := url.Parse(page); err == nil { // Validate has parsed it
		u.User = nil
		f.url = u
	}
}

// newTransport returns a transport with a connection of its own, and without a proxy, as the requests of a run.
func newTransport(p Page) http.RoundTripper {
	return &http.Transport{
		TLSClientConfig: p.TLS.Clone(),
		DialContext:     (&net.Dialer{Timeout: Timeout}).DialContext,
		MaxConnsPerHost: 1, MaxIdleConns: 1, IdleConnTimeout: 30 * time.Second,
		DisableCompression: true, MaxResponseHeaderBytes: 64 << 10, TLSHandshakeTimeout: Timeout,
	}
}

// maxRedirects is how many redirects of one request are followed.
const maxRedirects = 3

var errRedirect = errors.New("redirected to another server, which is not followed: name it with its own URL")

// checkRedirect follows a few redirects to the same scheme, host and port. Another server would get the header fields, which may
// have credentials.
func (f *fetcher) checkRedirect(r *http.Request, via []*http.Request) error {
	switch {
	case r.URL.Scheme != f.url.Scheme || !strings.EqualFold(r.URL.Host, f.url.Host):
		return errRedirect
	case len(via) > maxRedirects:
		return fmt.Errorf("redirected more than %d times", maxRedirects)
	}
	return nil
}

// get returns the text of the page. It is valid until the next call.
func (f *fetcher) get(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	r := (&http.Request{Method: http.MethodGet, URL: f.url, Host: f.url.Host, Header: f.header}).WithContext(ctx)
	answer, err := f.client.Do(r)
	if err != nil {
		return nil, f.explain(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d", answer.StatusCode)
	}
	f.text.Reset()
	_, err = f.text.ReadFrom(io.LimitReader(answer.Body, maxPage+1))
	switch {
	case err != nil:
		return nil, f.explain(err)
	case f.text.Len() > maxPage:
		return nil, fmt.Errorf("more than %d bytes", maxPage)
	}
	return f.text.Bytes(), nil
}

// explain returns an error of the transport without the URL and without secrets.
func (f *fetcher) explain(err error) error {
	switch {
	case errors.Is(err, errRedirect):
		return errRedirect
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no answer within %v", Timeout)
	}
	var at *url.Error
	if errors.As(err, &at) {
		err = at.Err
	}
	text := f.secrets.Replace(err.Error())
	if len(text) > maxError {
		text = strings.ToValidUTF8(text[:maxError], "") + "..."
	}
	return errors.New(text)
}

// maxError bounds the text of an error, in bytes.
const maxError = 300

// secretsOf returns what takes out of a text the user, the password and the query of a URL, and the values of header fields.
func secretsOf(u *url.URL, header http.Header) *secrets.Filter {
	list := []string{u.RawQuery}
	for _, values := range u.Query() {
		list = append(list, values...)
	}
	if u.User != nil {
		password, _ := u.User.Password()
		list = append(list, u.User.String(), u.User.Username(), password)
	}
	for _, values := range header {
		for _, v := range values {
			_, credentials, _ := strings.Cut(v, " ")
			list = append(list, v, credentials)
		}
	}
	filter := &secrets.Filter{}
	for _, s := range list {
		filter.Add(s, "[secret]")
	}
	return filter
}

// close closes the connection, if it is idle.
func (f *fetcher) close() { f.client.CloseIdleConnections() }
