package capture

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"net"
	"net/http"
	"strings"

	"github.com/agentx/agentx/cmd/internal/capture/canon"
	"github.com/agentx/agentx/cmd/internal/capture/carry"
	"github.com/agentx/agentx/cmd/internal/capture/journal"
)

// identity is what a request says of the session and the agent that it belongs to. The ids are the client's own.
type identity struct {
	by      journal.By
	session string // with its source: ids of two sources are never equal
	agent   string // "": the main agent
	parent  string // of the agent; "": the main agent
	via     journal.Tier
	marked  bool // a mark says that a subagent asks, but not which

	// chain: agents have ids, sessions have none. Agent and Parent are links of a chain that ends at the main agent, whose
	// id is that of the session. Session is the source alone.
	chain bool
}

// maxID bounds an id that a client sends, in bytes. A longer one is none.
const maxID = 1024

// sources are the headers in which agents that are known name their sessions. Those of a chain name agents alone.
var sources = []struct{ source, session, agent, parent string }{
	{"claude-code ", "X-Claude-Code-Session-Id", "X-Claude-Code-Agent-Id", "X-Claude-Code-Parent-Agent-Id"},
	{"codex ", "Session-Id", "Thread-Id", "X-Codex-Parent-Thread-Id"},
	{"codex ", "Session_id", "Thread-Id", "X-Codex-Parent-Thread-Id"},
	{"opencode ", "", "X-Session-Id", "X-Parent-Session-Id"},
	{"dynamo ", "", "X-Dynamo-Session-Id", "X-Dynamo-Parent-Session-Id"},
	{"affinity ", "X-Session-Affinity", "", ""},
}

// ofHead returns the identity that the head of a request gives: the prefix of the path, the header that the user names, then those of
// sources. ok is false where the head has none.
func ofHead(a *carry.Arrival, header string) (id identity, ok bool) {
	defer func() { id.marked = id.agent == "" && codexSubagent(a.Header) }()
	get := func(name string) string {
		if v := a.Header.Get(name); len(v) <= maxID {
			return v
		}
		return ""
	}
	if a.Session != "" {
		return withAgent(identity{by: journal.ByURL, session: "url " + a.Session}, a.Agent, ""), true
	}
	if v := get(header); v != "" {
		return identity{by: journal.ByHeader, session: "header " + v}, true
	}
	for _, s := range sources {
		session, agent, parent := get(s.session), get(s.agent), get(s.parent)
		switch {
		case session != "":
			if s.source == "codex " && agent == session {
				agent = ""
			}
			return withAgent(identity{by: journal.ByHeader, session: s.source + session}, agent, parent), true
		case s.session == "" && (agent != "" || parent != ""):
			return chained(journal.ByHeader, s.source, agent, parent), true
		}
	}
	return identity{}, false
}

// withAgent adds the agent that a header names, and its parent, to the identity of a session.
func withAgent(id identity, agent, parent string) identity {
	id.agent = agent
	if agent != "" {
		id.via = journal.TierHeader
		if parent != agent {
			id.parent = parent
		}
	}
	return id
}

// chained returns an identity of agents that name their parents. An agent without an id of its own asks for its parent.
func chained(by journal.By, source, own, parent string) identity {
	if own == "" {
		own, parent = parent, ""
	}
	return identity{by: by, session: source, agent: own, parent: parent, via: journal.TierHeader, chain: true}
}

// codexSubagent reports whether the header of Codex says that a subagent asks.
func codexSubagent(h http.Header) bool {
	v := h.Get("X-Codex-Turn-Metadata")
	var turn struct {
		ThreadSource string `json:"thread_source"`
	}
	return v != "" && json.Unmarshal([]byte(v), &turn) == nil && turn.ThreadSource == "subagent"
}

// ofBody returns the identity that a body gives, where the head gives none.
func ofBody(p *canon.Prompt) (id identity, ok bool) {
	user, key := p.UserID, p.CacheKey
	var object struct {
		Session string `json:"session_id"`
		Parent  string `json:"parent_session_id"`
	}
	switch _, after, found := strings.Cut(user, "_session_"); {
	case strings.HasPrefix(strings.TrimSpace(user), "{") && json.Unmarshal([]byte(user), &object) == nil && valid(object.Session):
		id = chained(journal.ByBody, "user ", object.Session, object.Parent)
		if id.via = journal.TierMark; !valid(object.Parent) {
			id.parent = ""
		}
	case found && valid(after):
		id = identity{by: journal.ByBody, session: "user text " + after}
	case valid(key):
		id = identity{by: journal.ByBody, session: "cache key " + key}
	default:
		return identity{}, false
	}
	return id, true
}

func valid(id string) bool { return id != "" && len(id) <= maxID }

// client returns the identity of a client: a digest of its address, without the port, and of the headers in which clients send their
// credentials.
func (r *registry) client(a *carry.Arrival) identity {
	host, _, err := net.SplitHostPort(a.RemoteAddr)
	if err != nil {
		host = a.RemoteAddr
	}
	mac := hmac.New(sha256.New, r.key[:])
	for _, text := range []string{host, a.Header.Get("Authorization"), a.Header.Get("X-Api-Key"), a.Header.Get("Api-Key")} {
		_ = binary.Write(mac, binary.LittleEndian, uint64(len(text))) // a hash takes everything
		_, _ = mac.Write([]byte(text))
	}
	return identity{by: journal.ByClient, session: "client " + string(mac.Sum(nil)), marked: codexSubagent(a.Header)}
}
