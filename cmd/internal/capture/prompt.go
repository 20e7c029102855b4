package capture

import (
	"errors"

	"github.com/agentx/agentx/cmd/internal/capture/canon"
	"github.com/agentx/agentx/cmd/internal/capture/carry"
	"github.com/agentx/agentx/cmd/internal/capture/chain"
	"github.com/agentx/agentx/cmd/internal/capture/coding"
	"github.com/agentx/agentx/cmd/internal/capture/journal"
)

// prompt is what was read of a request, or why it was not. One goroutine has it at a time.
type prompt struct {
	lost     journal.Reason // "" without a prompt: the client broke off, and none was served
	options  *canon.Prompt  // without the prompt itself, where the session was not known
	canon    *canon.Prompt
	unread   bool
	text     []byte // the body, until it is tokenized: canon refers to it
	prepared *chain.Prepared

	pool  *pool
	share *share // of its exchange
	held  int64  // bytes of it
	lane  *lane  // that it has until it is applied; nil: none
}

// hold says how many bytes the prompt takes now. It reports false where there is no room.
func (p *prompt) hold(bytes int64) bool {
	if more := bytes - p.held; more > 0 && !p.pool.hold(p.share, more) {
		return false
	} else if more < 0 {
		p.pool.release(p.share, -more)
	}
	p.held = bytes
	return true
}

// guard is deferred where a prompt is read: a panic loses it.
func (p *prompt) guard() {
	if recover() != nil {
		p.lose(journal.HoleInternal)
	}
}

// lose forgets what was read.
func (p *prompt) lose(why journal.Reason) {
	p.lost = why
	dropText(p.text)
	p.unread, p.text, p.canon, p.prepared = false, nil, nil, nil
}

// rest keeps room for what the prompt has now.
func (p *prompt) rest() {
	room := cap(p.text)
	if p.prepared != nil {
		room += p.prepared.Size()
	}
	p.hold(min(p.held, int64(room)+overhead))
}

// join makes one text of the pieces in which the body came, and drops these.
func (p *prompt) join(pieces []*carry.Chunk, size int) {
	if p.hold(p.held + int64(textRoom(size))) {
		p.text = newText(size)
	} else {
		p.lose(journal.HoleQueue)
	}
	for _, c := range pieces {
		if p.unread {
			p.text = append(p.text, c.Bytes()...)
		}
		c.Release()
	}
	p.rest()
}

// decode undoes the coding of the body.
func (p *prompt) decode(name string, limit int64) {
	defer p.guard()
	decoded, err := coding.Decode(name, p.text, limit)
	dropText(p.text)
	p.text = decoded
	switch {
	case errors.Is(err, coding.ErrTooLong):
		p.lose(journal.HoleOversize)
	case errors.Is(err, coding.ErrUnknown):
		p.lose(journal.HoleEncoding)
	case err != nil:
		p.lose(journal.HoleParse)
	case !p.hold(int64(cap(p.text)) + overhead):
		p.lose(journal.HoleQueue)
	}
}

// identify reads what the body says beside the prompt.
func (p *prompt) identify() {
	defer p.guard()
	var err error
	if p.options, err = canon.ParseOptions(p.text); err != nil {
		p.lose(reasonOf(err))
	}
}

// read parses the body, and tokenizes what is new to its session. It leaves that where the prompt goes on behind a response.
func (p *prompt) read(format canon.Format, tree *chain.Tree) {
	defer p.guard()
	p.unread = false
	var err error
	p.canon, p.prepared, err = tree.Read(format, p.text)
	p.settle(err)
}

// prepare tokenizes what is new to a session, where read has left that.
func (p *prompt) prepare(t *chain.Tree) {
	defer p.guard()
	var err error
	p.prepared, err = t.Prepare(p.canon)
	p.settle(err)
}

// settle loses a prompt that has an error, and forgets the text of one that is tokenized.
func (p *prompt) settle(err error) {
	switch {
	case err != nil:
		p.lose(reasonOf(err))
	case p.prepared != nil && p.prepared.Tokens() > journal.MaxTokens:
		p.lose(journal.HoleOversize)
	case p.prepared != nil:
		dropText(p.text)
		p.text, p.canon.Segments, p.canon.Elements, p.canon.List, p.canon.ToolsText = nil, nil, nil, nil, nil
	}
	p.rest()
}

// erase forgets the prompt, and gives its room back.
func (p *prompt) erase() {
	p.lose(p.lost)
	p.hold(0)
}
