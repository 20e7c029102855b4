package session

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"net"
	"net/http"
	"strings"

	"github.com/agentx/agentx/capture/canon"
	"github.com/agentx/agentx/capture/journal"
)

// Identity is what a request says of the session and the agent that it belongs to. The ids are the client's own.
type Identity struct {
	By      journal.By
	Session string // with its source: ids of two sources are never equal
	Agent   string // "": the main agent
	Parent  string // of the agent; "": the main agent
	Via     journal.Tier
	Marked  bool // a mark says that a subagent asks, but not which

	// Chain: agents have ids, sessions have none. Agent and Parent are links of a chain that ends at the main agent, whose
	// id is that of the session. Session is the source alone.
	Chain bool
}

// maxID bounds an id that a client sends, in bytes. A longer one is none.
const maxID = 1024

// Head is what the head of a request says.
type Head struct {
	Session, Agent string // of the prefix of the path
	Header         http.Header
	RemoteAddr     string
}

// OfHead returns the identity that a head gives: the prefix of the path, the header that the user names, then the headers of
// agents that are known. ok is false where the head has none.
func OfHead(h Head, header string) (id Identity, ok bool) {
	defer func() { id.Marked = id.Agent == "" && codexSubagent(h.Header) }()
	if h.Session != "" {
		return withAgent(Identity{By: journal.ByURL, Session: "url " + h.Session}, h.Agent, ""), true
	}
	get := func(name string) string {
		if v := h.Header.Get(name); len(v) <= maxID {
			return v
		}
		return ""
	}
	if header != "" {
		if v := get(header); v != "" {
			return Identity{By: journal.ByHeader, Session: "header " + v}, true
		}
	}
	id.By = journal.ByHeader
	if v := get("X-Claude-Code-Session-Id"); v != "" {
		id.Session = "claude-code " + v
		return withAgent(id, get("X-Claude-Code-Agent-Id"), get("X-Claude-Code-Parent-Agent-Id")), true
	}
	for _, name := range []string{"Session-Id", "Session_id"} {
		if v := get(name); v != "" {
			id.Session = "codex " + v
			thread := get("Thread-Id")
			if thread == v {
				thread = ""
			}
			return withAgent(id, thread, get("X-Codex-Parent-Thread-Id")), true
		}
	}
	for _, names := range [][3]string{
		{"opencode ", "X-Session-Id", "X-Parent-Session-Id"},
		{"dynamo ", "X-Dynamo-Session-Id", "X-Dynamo-Parent-Session-Id"},
	} {
		if own, parent := get(names[1]), get(names[2]); own != "" || parent != "" {
			return chain(journal.ByHeader, names[0], own, parent), true
		}
	}
	if v := get("X-Session-Affinity"); v != "" {
		id.Session = "affinity " + v
		return id, true
	}
	return Identity{}, false
}

func withAgent(id Identity, agent, parent string) Identity {
	id.Agent = agent
	if agent != "" {
		id.Via = journal.TierHeader
		if parent != agent {
			id.Parent = parent
		}
	}
	return id
}

// chain returns an identity of agents that name their parents. An agent without an id of its own asks for its parent.
func chain(by journal.By, source, own, parent string) Identity {
	if own == "" {
		own, parent = parent, ""
	}
	return Identity{By: by, Session: source, Agent: own, Parent: parent, Via: journal.TierHeader, Chain: true}
}

// codexSubagent reports whether the header of Codex says that a subagent asks.
func codexSubagent(h http.Header) bool {
	v := h.Get("X-Codex-Turn-Metadata")
	var turn struct {
		ThreadSource string `json:"thread_source"`
	}
	return v != "" && json.Unmarshal([]byte(v), &turn) == nil && turn.ThreadSource == "subagent"
}

// OfBody returns the identity that a body gives, where the head gives none.
func OfBody(p *canon.Prompt) (id Identity, ok bool) {
	user, key := p.UserID, p.CacheKey
	var object struct {
		Session string `json:"session_id"`
		Parent  string `json:"parent_session_id"`
	}
	switch _, after, found := strings.Cut(user, "_session_"); {
	case strings.HasPrefix(strings.TrimSpace(user), "{") && json.Unmarshal([]byte(user), &object) == nil && valid(object.Session):
		id = chain(journal.ByBody, "user ", object.Session, object.Parent)
		if id.Via = journal.TierMark; !valid(object.Parent) {
			id.Parent = ""
		}
	case found && valid(after):
		id = Identity{By: journal.ByBody, Session: "user text " + after}
	case valid(key):
		id = Identity{By: journal.ByBody, Session: "cache key " + key}
	default:
		return Identity{}, false
	}
	return id, true
}

func valid(id string) bool { return id != "" && len(id) <= maxID }

// Clients tells clients apart by a digest of the address, without its port, and the credential. Its key is never stored.
type Clients struct{ key [sha256.Size]byte }

// NewClients returns what tells clients apart. The caller draws the key.
func NewClients(key [sha256.Size]byte) *Clients { return &Clients{key} }

// credentials are the headers in which clients send theirs.
var credentials = []string{"Authorization", "X-Api-Key", "Api-Key"}

// Identity returns the identity of a client.
func (c *Clients) Identity(h Head) Identity {
	host, _, err := net.SplitHostPort(h.RemoteAddr)
	if err != nil {
		host = h.RemoteAddr
	}
	mac := hmac.New(sha256.New, c.key[:])
	for _, text := range append([]string{host}, values(h.Header, credentials)...) {
		_ = binary.Write(mac, binary.LittleEndian, uint64(len(text))) // a hash takes everything
		_, _ = mac.Write([]byte(text))
	}
	return Identity{By: journal.ByClient, Session: "client " + string(mac.Sum(nil)), Marked: codexSubagent(h.Header)}
}

func values(h http.Header, names []string) (list []string) {
	for _, name := range names {
		list = append(list, h.Get(name))
	}
	return list
}
