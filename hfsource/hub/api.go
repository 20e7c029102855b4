package hub

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/agentx/agentx/internal/durable"
)

// maxAnswer limits a JSON answer, in bytes.
const maxAnswer = 64 << 20

const proxyHint = "look for a proxy or a sign-in page in between, and at HF_ENDPOINT"

// unexpected returns the error about a reply that no hub sends.
func (r *reply) unexpected(text string) *Error {
	return &Error{Class: ClassNotHub, Text: text, Status: r.status, RequestID: r.requestID()}
}

// notAHub returns the error about a reply whose server does not look like a hub. cause may be nil.
func (r *reply) notAHub(text string, cause error) error {
	err := r.unexpected(redactURL(r.url) + " is not a hub: " + text)
	err.Err, err.Hint = cause, proxyHint
	return err
}

// getJSON gets a JSON value from the hub. It retries when the body is truncated, up to attempts requests.
func (c *client) getJSON(ctx context.Context, at *url.URL, into any) (r *reply, err error) {
	for attempt := 1; ; attempt++ {
		r, err = c.getJSONOnce(ctx, at, into)
		if !errors.Is(err, errTruncated) || attempt == attempts {
			return r, err
		}
		if err := durable.Sleep(ctx, c.backoff(attempt)); err != nil {
			return nil, err
		}
	}
}

func (c *client) getJSONOnce(ctx context.Context, at *url.URL, into any) (*reply, error) {
	r, _, err := c.follow(ctx, request{method: http.MethodGet, url: at, budget: apiBudget})
	if err != nil {
		return nil, err
	}
	defer r.discard()
	if r.status != http.StatusOK {
		return nil, c.refusal(r)
	}
	if r.encoding() != "" {
		return nil, r.encodedError()
	}
	data, err := io.ReadAll(io.LimitReader(r.body, maxAnswer+1))
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	switch {
	case err != nil:
		return nil, &Error{Class: ClassUnavailable, Text: "the answer of " + redactURL(r.url) + " did not arrive", Err: fmt.Errorf("%w: %w", errTruncated, err)}
	case len(data) > maxAnswer:
		return nil, &Error{Class: ClassNotHub, Text: fmt.Sprintf("the answer of %s has more than %d bytes", redactURL(r.url), maxAnswer)}
	}
	if err := json.Unmarshal(data, into); errors.Is(err, errLongListing) {
		return nil, longListing()
	} else if err != nil {
		return nil, r.notAHub("the answer is not the JSON of a hub", err)
	}
	return r, nil
}

// encodedError is the error about a body with a Content-Encoding, which no request asks for.
func (r *reply) encodedError() error {
	return r.notAHub("it sends the body as "+sanitize(r.encoding(), 40)+", although that was not asked for", nil)
}

// refusal explains a final reply without the content that was asked for. doc/spec/hub.md 4.
func (c *client) refusal(r *reply) error {
	code, message := r.header.Get("X-Error-Code"), r.errorMessage()
	fail := func(class Class, text, hint string) error {
		if message != "" {
			text += ": " + message
		}
		return &Error{Class: class, Text: text, Hint: hint, Status: r.status, RequestID: r.requestID()}
	}
	page := c.endpoint.String() + c.kind.page + "REPO" // explain fills in the repository
	switch {
	case message == "Access to this resource is disabled.":
		return fail(ClassDisabled, "the hub has disabled it", "")
	case code == "GatedRepo":
		return fail(ClassGated, "its terms must be accepted first", "accept the terms at "+page+", and set HF_TOKEN to a token of that account")
	case code == "RevisionNotFound":
		return fail(ClassNotFound, "there is no such revision", "leave @REVISION out for main, or see "+page+"/tree/main for branches and tags")
	case code == "EntryNotFound":
		return fail(ClassNotFound, "there is no such file", "see "+page+"/tree/main for its files")
	case code != "RepoNotFound" && r.status == 401 && mentionsCredentials(message):
		return fail(ClassCredentials, "the hub does not accept the token", "a valid HF_TOKEN, or none: public "+c.kind.word+"s need none")
	case code == "RepoNotFound" || r.status == 401: // the hub does not tell private from absent
		return fail(ClassNotFound, "there is no such repository, or it is private", "check the name; if it is private, "+c.tokenHint())
	case r.status == 403:
		return fail(ClassGated, "access is forbidden", "look at "+page+" for what it asks for, and "+c.tokenHint())
	case r.status == 404 || r.status == 410:
		return fail(ClassNotFound, "the hub does not have it", "check the name and the revision")
	}
	return r.notAHub("it answers with a status that a hub does not use", nil)
}

// errorMessage returns the hub's explanation: a header, or a field of the body.
func (r *reply) errorMessage() string {
	message := r.header.Get("X-Error-Message")
	if message == "" {
		var body struct {
			Error string `json:"error"`
		}
		if data, err := io.ReadAll(io.LimitReader(r.body, 4<<10)); err == nil && json.Unmarshal(data, &body) == nil {
			message = body.Error
		}
	}
	return sanitize(message, 300)
}

func mentionsCredentials(message string) bool {
	message = strings.ToLower(message)
	return strings.Contains(message, "invalid credentials") || strings.Contains(message, "invalid username")
}

// tokenHint says which token would help.
func (c *client) tokenHint() string {
	switch {
	case c.token != "":
		return "a token that may read it: the present one cannot, if it exists"
	case c.tokenDisabled:
		return "unset HF_HUB_DISABLE_IMPLICIT_TOKEN: no token is sent with it"
	}
	return "set HF_TOKEN to a token that may read it"
}

// revision asks for the commit of a branch, a tag or another reference, and the current name of the repository.
func (c *client) revision(ctx context.Context, repo, revision string) (commit, currentRepo string, err error) {
	var info struct {
		SHA string `json:"sha"`
	}
	r, err := c.getJSON(ctx, c.address(c.kind.api+repo+"/revision/"+escape(revision)), &info)
	if err != nil {
		return "", "", err
	}
	if !commitForm.MatchString(info.SHA) {
		return "", "", r.notAHub("the commit that it names is "+strconv.Quote(sanitize(info.SHA, 60)), nil)
	}
	if err := checkCommit(r, info.SHA, false); err != nil {
		return "", "", err
	}
	if hexForm.MatchString(revision) && strings.HasPrefix(info.SHA, strings.ToLower(revision)) {
		return "", "", &Error{Class: ClassInvalid, Text: "a shortened commit is not accepted as a revision", Hint: "@" + info.SHA}
	}
	return info.SHA, c.repoOf(r.url, repo), nil
}

// repoOf returns the repository in the address that answered. After a rename it differs from asked.
func (c *client) repoOf(at *url.URL, asked string) string {
	path := strings.TrimPrefix(at.Path, strings.TrimRight(c.endpoint.Path, "/"))
	if rest, ok := strings.CutPrefix(path, c.kind.api); ok {
		if parts := strings.SplitN(rest, "/", 3); len(parts) == 3 && checkRepo(parts[0]+"/"+parts[1]) == nil {
			return parts[0] + "/" + parts[1]
		}
	}
	return asked
}

// checkCommit compares the commit that a reply names with the requested one. Without required, a reply may name none.
func checkCommit(r *reply, commit string, required bool) error {
	got := r.header.Get("X-Repo-Commit")
	switch {
	case got == "" && !required || got == commit:
		return nil
	case !commitForm.MatchString(got):
		return r.notAHub("the answer names no commit", nil)
	}
	return r.unexpected(fmt.Sprintf("revision mismatch: %s answers for commit %s, asked was %s", redactURL(r.url), got, commit))
}

// resolveURL returns the hub's address of a file at a commit.
func (c *client) resolveURL(repo, commit, path string) *url.URL {
	return c.address(c.kind.page + repo + "/resolve/" + commit + "/" + escapePath(path))
}

// head returns the address of the content of a file, on the hub or elsewhere. It compares the headers of the reply with the
// listing.
func (c *client) head(ctx context.Context, repo, commit, path string, want entry) (*url.URL, error) {
	r, away, err := c.follow(ctx, request{method: http.MethodHead, url: c.resolveURL(repo, commit, path), budget: resolveBudget})
	if err != nil {
		return nil, err
	}
	defer r.discard()
	if away == nil && r.status != http.StatusOK {
		return nil, c.refusal(r)
	}
	return cmp.Or(away, r.url), checkMetadata(r, commit, want)
}

// checkMetadata compares the headers of a resolve reply with the listing: commit, digest and size.
func checkMetadata(r *reply, commit string, want entry) error {
	if err := checkCommit(r, commit, true); err != nil {
		return err
	}
	etag := cmp.Or(r.header.Get("X-Linked-Etag"), r.header.Get("ETag"))
	etag = strings.Trim(strings.TrimPrefix(etag, "W/"), `"`)
	if !etagForm.MatchString(etag) {
		return r.notAHub("the etag of the file is "+strconv.Quote(sanitize(etag, 80))+", which is no digest", nil)
	}
	if etag != want.etag() {
		return r.notAHub(fmt.Sprintf("the file is %s here and %s in the listing of the same commit", etag, want.etag()), nil)
	}
	text := r.header.Get("X-Linked-Size")
	if text == "" && !isRedirect(r.status) { // the length of a redirect is that of its own body
		text = r.header.Get("Content-Length")
	}
	if text == "" {
		return nil // the listing has it
	}
	if size, err := strconv.ParseInt(text, 10, 64); err != nil || size != want.Size {
		return r.notAHub(fmt.Sprintf("the file has %s bytes here and %d in the listing of the same commit", sanitize(text, 30), want.Size), nil)
	}
	return nil
}
