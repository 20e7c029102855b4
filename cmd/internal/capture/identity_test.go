package capture

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/capture/canon"
	"github.com/agentx/agentx/cmd/internal/capture/carry"
	"github.com/agentx/agentx/cmd/internal/capture/journal"
)

// header makes a header of pairs.
func header(pairs ...string) http.Header {
	h := http.Header{}
	for k := 0; k < len(pairs); k += 2 {
		h.Set(pairs[k], pairs[k+1])
	}
	return h
}

// Every row of the table, each with the rows below it present too: the first that matches decides.
//
// Covers C-18.
func TestIdentityOfHeads(t *testing.T) {
	rows := []struct {
		pairs []string
		want  identity
	}{
		{[]string{"X-My-Session", "mine"}, identity{by: journal.ByHeader, session: "header mine"}},
		{[]string{"X-Claude-Code-Session-Id", "cc", "x-claude-code-agent-id", "a1", "x-claude-code-parent-agent-id", "a0"},
			identity{by: journal.ByHeader, session: "claude-code cc", agent: "a1", parent: "a0", via: journal.TierHeader}},
		{[]string{"session-id", "cx", "thread-id", "th", "x-codex-parent-thread-id", "pt"},
			identity{by: journal.ByHeader, session: "codex cx", agent: "th", parent: "pt", via: journal.TierHeader}},
		{[]string{"session_id", "old", "thread-id", "old"}, identity{by: journal.ByHeader, session: "codex old"}},
		{[]string{"x-session-id", "child", "x-parent-session-id", "root"},
			identity{by: journal.ByHeader, session: "opencode ", agent: "child", parent: "root", via: journal.TierHeader, chain: true}},
		{[]string{"X-Dynamo-Session-ID", "d1", "X-Dynamo-Parent-Session-ID", "d0"},
			identity{by: journal.ByHeader, session: "dynamo ", agent: "d1", parent: "d0", via: journal.TierHeader, chain: true}},
		{[]string{"X-Session-Affinity", "af"}, identity{by: journal.ByHeader, session: "affinity af"}},
	}
	for k, row := range rows {
		h := header(row.pairs...)
		for _, below := range rows[k+1:] {
			for name, values := range header(below.pairs...) {
				if h[name] == nil && http.CanonicalHeaderKey(name) != "Thread-Id" {
					h[name] = values
				}
			}
		}
		id, ok := ofHead(&carry.Arrival{Header: h}, "x-my-session")
		require.True(t, ok)
		require.Equal(t, row.want, id)
		id, ok = ofHead(&carry.Arrival{Session: "NAME", Agent: "sub", Header: h}, "x-my-session")
		require.True(t, ok)
		require.Equal(t, identity{by: journal.ByURL, session: "url NAME", agent: "sub", via: journal.TierHeader}, id)
	}
	_, ok := ofHead(&carry.Arrival{Header: header("Session-Id", string(make([]byte, maxID+1)))}, "")
	require.False(t, ok, "an id that is too long")
	id, _ := ofHead(&carry.Arrival{Header: header("session-id", "cx", "x-codex-turn-metadata", `{"turn_id":"x","thread_source":"subagent"}`)}, "")
	require.True(t, id.marked)
	id, _ = ofHead(&carry.Arrival{Header: header("session-id", "cx", "x-codex-turn-metadata", `{"thread_source":"user"}`)}, "")
	require.False(t, id.marked)
	id, _ = ofHead(&carry.Arrival{Header: header("X-Parent-Session-Id", "root")}, "")
	require.Equal(t, identity{by: journal.ByHeader, session: "opencode ", agent: "root", via: journal.TierHeader, chain: true}, id)
}

// Covers C-18.
func TestIdentityOfBodies(t *testing.T) {
	for _, c := range []struct {
		prompt canon.Prompt
		want   identity
	}{
		{canon.Prompt{UserID: "user_ab_account__session_5b1c", CacheKey: "k"}, identity{by: journal.ByBody, session: "user text 5b1c"}},
		{canon.Prompt{UserID: `{"session_id":"s1"}`}, identity{by: journal.ByBody, session: "user ", agent: "s1", via: journal.TierMark, chain: true}},
		{canon.Prompt{UserID: `{"session_id":"s1","parent_session_id":"s0"}`}, identity{by: journal.ByBody, session: "user ", agent: "s1", parent: "s0", via: journal.TierMark, chain: true}},
		{canon.Prompt{UserID: "someone", CacheKey: "k"}, identity{by: journal.ByBody, session: "cache key k"}},
	} {
		id, ok := ofBody(&c.prompt)
		require.True(t, ok)
		require.Equal(t, c.want, id)
	}
	for _, p := range []canon.Prompt{{}, {UserID: "someone"}, {UserID: "x_session_"}, {UserID: `{"session_id":7}`}, {CacheKey: string(make([]byte, maxID+1))}} {
		_, ok := ofBody(&p)
		require.False(t, ok)
	}
}

// A client is an address without its port, and a credential.
func TestIdentityOfClients(t *testing.T) {
	c := registry{key: [32]byte{1}}
	of := func(addr string, pairs ...string) string {
		return c.client(&carry.Arrival{RemoteAddr: addr, Header: header(pairs...)}).session
	}
	one := of("10.0.0.1:1000", "Authorization", "Bearer a")
	require.Equal(t, one, of("10.0.0.1:2000", "Authorization", "Bearer a", "User-Agent", "x"))
	for _, other := range []string{
		of("10.0.0.2:1000", "Authorization", "Bearer a"), of("10.0.0.1:1000", "Authorization", "Bearer b"), of("10.0.0.1:1000"),
		of("10.0.0.1:1000", "X-Api-Key", "Bearer a"), of("[::1]:1000", "Authorization", "Bearer a"), of("a pipe", "Authorization", "Bearer a"),
		(&registry{key: [32]byte{2}}).client(&carry.Arrival{RemoteAddr: "10.0.0.1:1000", Header: header("Authorization", "Bearer a")}).session,
	} {
		require.NotEqual(t, one, other)
	}
	require.NotContains(t, one, "Bearer")
	require.NotContains(t, one, "10.0.0.1")
}
