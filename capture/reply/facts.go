package reply

import "github.com/agentx/agentx/capture/journal"

// Facts are what a reply says. None of its texts belongs on a disk, but the words of closed lists.
type Facts struct {
	Whole     bool  // its terminal mark was read, or the whole body of a reply that is no stream
	HasOutput bool  // text, thinking or a call of a tool
	First     int64 // instant of the first output of a stream; -1: none
	Failed    bool  // the API reported an error, under status 200

	Prompt int64 // tokens, as the API counted them; -1: it did not say, or not credibly
	Out    int64 // the same for the output
	Stop   journal.Stop
	Word   string // the API's own word for why it stopped
	Output journal.Kinds
	Marks  journal.Mark   // reply_*
	Lost   journal.Reason // why nothing can be said of it: HoleEncoding, HoleOversize; "" otherwise

	Calls []Call
	Texts []string // the output that was seen, a text for each of its parts, to be counted where Out is not known
	ID    string   // of a response, to go on from
	Items []byte   // JSON list of the output of a response with an ID; nil otherwise
}

// Call is the call of a tool.
type Call struct {
	ID   string
	Name string
	Type string // argument subagent_type of a tool that makes a subagent, "" for others
}

// MakesSubagent reports whether a call begins a subagent.
func (c Call) MakesSubagent() bool { return c.Name == "Task" || c.Name == "Agent" }
