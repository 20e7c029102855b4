package session

// maxChain bounds the links from an agent to the main one.
const maxChain = 16

// resolve returns the key of the session of an identity, and its agent there. It follows a chain of parents to the first agent
// that names none; ok is false where the chain is too long or goes in a circle.
func (r *Registry[R]) resolve(id Identity) (key, agent, parent string, ok bool) {
	if !id.Chain {
		return id.Session, id.Agent, id.Parent, true
	}
	root, above := id.Agent, id.Parent
	for links := 0; above != "" && above != root; links++ {
		if links == maxChain || above == id.Agent {
			return "", "", "", false
		}
		root, above = above, r.parents[id.Session+above]
	}
	key, agent, parent = id.Session+root, id.Agent, id.Parent
	if agent == root {
		agent = ""
	}
	if parent == root {
		parent = ""
	}
	return key, agent, parent, true
}

// link remembers the parent of an agent. What an agent said first counts.
func (r *Registry[R]) link(s *Session[R], id Identity) {
	own := id.Session + id.Agent
	if _, known := r.parents[own]; !known {
		r.parents[own] = id.Parent
		s.ids = append(s.ids, own)
	}
}
