package convert

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"maps"
	"slices"
	"sort"

	"github.com/agentx/agentx/convert/text"
	"github.com/agentx/agentx/convert/text/render"
	"github.com/agentx/agentx/hfsource"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
)

// textRecipe is the version of what this program builds from logs. Raise it when the content of a part changes.
const textRecipe = 3

// textImage is the pre-image of the keys of texts, and of their structure: everything that could change a byte of either.
type textImage struct {
	recipe
	Inputs  []logImage `json:"inputs"`
	Options LogOptions `json:"options"`
	Arenas  string     `json:"arenas"` // key: fillers are of their corpus, and lengths of their tokenizer
}

// logImage is one file of a log. Its name counts as far as it says which agent wrote it.
type logImage struct {
	inputImage
	Format string `json:"format"`
	Agent  string `json:"agent,omitempty"`
}

// textDatasetImage is the pre-image of the key of a dataset of logs: the keys of its parts.
type textDatasetImage struct {
	Format    int    `json:"format"`
	Structure string `json:"structure"`
	Texts     string `json:"texts"`
	Arenas    string `json:"arenas"`
}

// findLogs notes which files of a snapshot are logs, and reports whether all are. The error is about an input that has others, too.
func (c *conversion) findLogs(ctx context.Context) (bool, error) {
	logs, other := 0, ""
	for k := range c.snapshot.Files {
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		f := &c.snapshot.Files[k]
		format, err := c.options.Logs.fileFormat(c.snapshot, k)
		if err != nil {
			return false, err
		}
		if format == nil {
			other = cmp.Or(other, f.Path)
			continue
		}
		f.Rows = format.name
		logs++
	}
	if logs > 0 && other != "" {
		return false, fmt.Errorf("input %s: it is no log with text as the other files are: convert traces and logs apart", other)
	}
	return logs > 0, nil
}

// wantedLogs returns, by kind, a manifest with the key and the pre-image of each part of a dataset of logs.
func (c *conversion) wantedLogs() (map[string]*manifest.Manifest, error) {
	arenas, err := manifest.New(mmapcache.ArenasKind, c.prompts.image)
	if err != nil {
		return nil, err
	}
	image := textImage{recipe: recipe{mmapcache.FormatTexts, textRecipe, probeLogs()}, Options: c.options.Logs, Arenas: arenas.Key}
	for _, f := range c.snapshot.Files {
		image.Inputs = append(image.Inputs, logImage{inputImage{Lines: f.Format.Lines, SHA256: f.SHA256}, f.Rows, agentOfFile(f.Path)})
	}
	wanted := map[string]*manifest.Manifest{mmapcache.ArenasKind: arenas}
	for _, kind := range []string{mmapcache.StructureKind, mmapcache.TextsKind} {
		if wanted[kind], err = manifest.New(kind, image); err != nil {
			return nil, err
		}
	}
	wanted[mmapcache.DatasetKind], err = manifest.New(mmapcache.DatasetKind,
		textDatasetImage{mmapcache.FormatTexts, wanted[mmapcache.StructureKind].Key, wanted[mmapcache.TextsKind].Key, arenas.Key})
	return wanted, err
}

// runLogs finds or builds the parts of a dataset of logs, and the dataset last.
func (c *conversion) runLogs(ctx context.Context) error {
	var built *logPlans
	if err := c.arenas(ctx); err != nil {
		return err
	}
	m, err := c.part(ctx, mmapcache.TextsKind, c.options.Force, func(ctx context.Context, b *mmapcache.Builder) error {
		return c.stage("plan", func() error {
			if err := b.MakePrivate(); err != nil {
				return err
			}
			w, err := b.NewTexts()
			if err != nil {
				return err
			}
			if built, err = c.planLogs(ctx, w); err != nil { // again after a lost lease: each directory has all texts
				w.Abort()
				return err
			}
			return w.Close(built.texts)
		})
	})
	if err != nil {
		return err
	}
	if c.result.Texts, err = mmapcache.TextFactsOf(m); err != nil {
		return err
	}
	m, err = c.part(ctx, mmapcache.StructureKind, c.options.Force, func(ctx context.Context, b *mmapcache.Builder) error {
		return c.stage("plan", func() error {
			if err := b.MakePrivate(); err != nil {
				return err
			}
			if built == nil { // the texts were found
				var err error
				if built, err = c.planLogs(ctx, &countingWriter{}); err != nil {
					return err
				}
			}
			return b.BuildStructure(built.structure, built.facts)
		})
	})
	if err != nil {
		return err
	}
	if c.result.Facts, err = mmapcache.StructureFactsOf(m); err != nil {
		return err
	}
	return c.dataset(ctx)
}

// logPlans is what a log becomes besides its texts.
type logPlans struct {
	structure *mmapcache.Structure
	facts     mmapcache.StructureFacts
	texts     mmapcache.TextFacts
}

// planLogs reads the logs, and writes their messages.
func (c *conversion) planLogs(ctx context.Context, w render.Writer) (*logPlans, error) {
	d, sizes, err := c.readSizedLogs(ctx, true)
	if err != nil {
		return nil, err
	}
	defer d.Store.Close()
	start, inexact, err := c.fillerStart(d)
	if err != nil {
		return nil, err
	}
	if inexact > 0 {
		c.options.Warn("%d lengths of the prefix that the log lacks have no exact place in corpus %s: a server may count a few tokens more or fewer", inexact, c.options.Corpus)
	}
	p := &logPlans{structure: mmapcache.NewStructure(), facts: mmapcache.StructureFacts{Skipped: []mmapcache.Skipped{}, Unknown: map[string]int{}, UnknownIn: map[string]string{},
		Generations: map[string]int{}, Rules: c.options.Rules.WithDefaults().TimeRules(), MaxBlockSize: 1}}
	if p.facts.Rules.LiveAnswers, err = liveAnswers(d); err != nil {
		return nil, err
	}
	r := render.New(d, sizes, w, start)
	for k, t := range d.Traces {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		plan, err := r.Plan(t, fmt.Sprintf("s%d", k+1))
		if err == nil {
			err = p.structure.Append(plan)
		}
		if err == nil && t.Scheduled {
			p.structure.SetRecordedStart(k, float64(t.Start))
			p.facts.Starts++
		}
		if err != nil {
			return nil, err
		}
		for i := range t.Sessions { // each prompt of a session begins with its filler
			p.texts.FillerTokens += int64(max(0, t.Sessions[i].Filler)) * int64(len(t.Sessions[i].Turns))
		}
		for _, u := range plan.Turns {
			p.facts.PromptTokens += int64(u.In)
			p.facts.OutputTokens += int64(max(0, u.Out))
		}
		d.Traces[k] = nil // its tables take its place in memory
	}
	s := p.structure
	p.facts.Traces, p.facts.Sessions, p.facts.Turns = s.Traces.Len(), s.Sessions.Len(), s.Turns.Len()
	p.facts.Generations[d.Formats[0]] = s.Traces.Len()
	p.facts.MaxBlockTrace = "s1"
	p.texts.Counts, p.texts.Formats, p.texts.Redacted = d.Warnings, d.Formats, d.Store.Redacted
	return p, nil
}

// liveAnswers reports whether the prompts of the sessions are what is new in them. The error is about an input that has sessions of several
// turns of both kinds.
func liveAnswers(d *text.Dataset) (live bool, err error) {
	whole := false
	for _, t := range d.Traces {
		if t.Live {
			live = true
			continue
		}
		for k := range t.Sessions {
			whole = whole || len(t.Sessions[k].Turns) > 1
		}
	}
	if live && whole {
		err = errors.New("some sessions have what is new in each request, to be sent behind the answers of the server, and others have whole prompts: convert them apart")
	}
	return live, err
}

// readSizedLogs reads the logs into a dataset, and counts what they do not say. The caller closes its store. needText leaves out turns of
// which only sizes are there.
func (c *conversion) readSizedLogs(ctx context.Context, needText bool) (*text.Dataset, *text.Sizes, error) {
	d := text.NewDataset(text.NewStore(""))
	d.NeedText = needText
	if c.options.Logs.Redact != "none" {
		d.Store.Redact = text.NewRedactor()
	}
	err := readLogs(ctx, c.snapshot, d, c.options)
	if err == nil {
		sizes := text.LateSizes(d, func() (text.Tokenizer, error) { return c.prompts.loaded() })
		if err = sizes.Complete(); err == nil {
			return d, sizes, nil
		}
	}
	d.Store.Close()
	return nil, nil, err
}

// fillerStart returns the token of the corpus at which fillers of all lengths begin, so that they are the tokens that they were cut from,
// and how many lengths have no such place there. Agents whose prefixes are of equal length share theirs, others the shorter one.
func (c *conversion) fillerStart(d *text.Dataset) (start uint32, inexact int, err error) {
	counts := map[int]int{}
	for _, t := range d.Traces {
		for k := range t.Sessions {
			if n := int(t.Sessions[k].Filler); n > 0 && len(t.Sessions[k].Turns) > 0 {
				counts[n]++
			}
		}
	}
	lengths := slices.SortedFunc(maps.Keys(counts), func(a, b int) int { return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b)) })
	if len(lengths) == 0 {
		return 0, 0, nil
	}
	e := c.edges()
	if e.err != nil || e.edges == nil {
		return 0, len(lengths), e.err
	}
	fit := sort.Search(len(lengths), func(n int) bool { // of fewer lengths there are more places
		_, ok := e.edges.First(lengths[:n+1]...)
		return !ok
	})
	if fit > 0 {
		start, _ = e.edges.First(lengths[:fit]...)
	}
	return start, len(lengths) - fit, nil
}

// DryRun says what the inputs would become, without text, as text.Sizes.AddTo does. turn gets the turns, as text.NewAnswer says.
func DryRun(ctx context.Context, o Options, blockSize int, ids bool, turn func(session int, t text.AnswerTurn)) (*text.Answer, error) {
	a := text.NewAnswer(turn)
	look := func(_ *text.Dataset, sizes *text.Sizes) error { return sizes.AddTo(a, blockSize, ids) }
	return a, lookAt(ctx, o, look, func(ctx context.Context, c *conversion) error { return c.answerTraces(ctx, a, blockSize > 0, ids) })
}

// lookAt reads the inputs as a conversion would, and builds nothing. logs gets what logs have, traces what others have; nil: they are refused.
func lookAt(ctx context.Context, o Options, logs func(d *text.Dataset, sizes *text.Sizes) error, traces func(context.Context, *conversion) error) error {
	if err := o.Validate(); err != nil {
		return err
	}
	c := newConversion(o.withDefaults())
	return c.withInput(ctx, func(ctx context.Context) error {
		if !c.logs && traces != nil {
			return traces(ctx, c)
		} else if !c.logs {
			return fmt.Errorf("input %s: it is no log with text, and only those are explained before they are built", c.options.Inputs[0])
		}
		d, sizes, err := c.readSizedLogs(ctx, false)
		if err != nil {
			return err
		}
		return errors.Join(logs(d, sizes), d.Store.Close())
	})
}

// FormatFidelity says what a replay has of logs of a format, in words.
type FormatFidelity struct {
	Name        string `json:"name"`
	Exact       string `json:"exact"`
	Approximate string `json:"approximate"`
	Missing     string `json:"missing"`
}

// Fidelity says how close a replay of logs is to what was recorded. It has no text of them.
type Fidelity struct {
	Formats []FormatFidelity `json:"formats"`
	Turns   int              `json:"turns"`
	Prompts int              `json:"recorded_prompts"` // turns whose prompt has a recorded length
	Answers int              `json:"recorded_answers"` // turns whose answer has one
	Times   int              `json:"recorded_times"`   // turns with a time
	NoText  int              `json:"without_text"`     // turns that a text cache leaves out
	Filler  float64          `json:"filler_share"`     // of the tokens of all prompts
	Fit     text.Fit         `json:"fit"`
}

// FidelityOf reads the logs of the inputs as a conversion would, builds nothing, and compares lengths in blocks of a size in tokens. It
// encodes all texts.
func FidelityOf(ctx context.Context, o Options, blockSize int) (*Fidelity, error) {
	f := &Fidelity{}
	return f, lookAt(ctx, o, func(d *text.Dataset, sizes *text.Sizes) error {
		for _, name := range d.Formats {
			of := logFormatNamed(name).fidelity
			of.Name = name
			f.Formats = append(f.Formats, of)
		}
		f.Prompts, f.Answers = -sizes.CountedPrompts, -sizes.CountedAnswers
		filler, tokens := 0, 0
		for _, t := range d.Traces {
			for k := range t.Sessions {
				s := &t.Sessions[k]
				for n := range s.Turns {
					f.add(&s.Turns[n])
					filler += int(max(s.Filler, 0))
					tokens += int(max(s.Filler, 0)) + sizes.Prompt(t, k, n)
				}
			}
		}
		f.Filler = float64(filler) / float64(max(tokens, 1))
		stretches, err := sizes.Stretches(blockSize)
		f.Fit = text.FitOf(stretches)
		return err
	}, nil)
}

// add counts what is recorded of a turn.
func (f *Fidelity) add(u *text.Turn) {
	f.Turns++
	for of, is := range map[*int]bool{&f.Prompts: u.In != text.None, &f.Answers: u.Out != text.None, &f.Times: u.End != text.NoTime, &f.NoText: u.NoContent} {
		if is {
			*of++
		}
	}
}

// keptIDs is how many tokens of texts ReadLogs keeps at least, for a caller that asks for them, and maxIDs how many bytes they take at most.
const (
	keptIDs = 1 << 20
	maxIDs  = 2 * keptIDs * 4
)

// ReadLogs reads the logs of the inputs, with their texts as they were recorded. Of Options it takes Inputs, Source and Logs, and the
// callbacks. The caller completes the sizes: text.Sizes.CompleteTrace. It closes the store of the dataset. No error names a file or an input
// but by its number.
func ReadLogs(ctx context.Context, o Options, t text.Tokenizer) (*text.Dataset, *text.Sizes, error) {
	o = o.withDefaults()
	o.Source.Texts, o.Source.Unkeyed = textFormats(), true
	memory := o.Memory
	o.Memory = func(bytes int64) { memory(bytes + maxIDs) }
	files, formats, err := LogFiles(o.Inputs)
	if err != nil {
		return nil, nil, unread(err)
	}
	o.Logs.setFiles(o.Inputs, formats)
	s, err := hfsource.Resolve(ctx, files, o.Source)
	if err != nil {
		return nil, nil, cmp.Or(ctx.Err(), unread(err))
	}
	d := text.NewDataset(text.NewStore(""))
	d.NeedText = true
	if err = errors.Join(readLogs(ctx, s, d, o), s.Close()); err != nil {
		d.Store.Close()
		return nil, nil, cmp.Or(ctx.Err(), unnamed(err))
	}
	sizes := text.NewSizes(d, t)
	sizes.KeepIDs(keptIDs)
	return d, sizes, nil
}

// ErrUnread is wrapped by the errors of ReadLogs about files that cannot be found or read.
var ErrUnread = errors.New("a file of the input cannot be found or read")

// unread returns an error about files without their names.
func unread(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("%w: %w", ErrUnread, e.Err)
	}
	return ErrUnread
}

// unnamed returns an error of reading logs without names of files.
func unnamed(err error) error {
	row, ofLog := errors.AsType[*LogError](err)
	_, ofPath := errors.AsType[*fs.PathError](err)
	switch {
	case ofLog && row.unread || !ofLog && ofPath:
		return unread(err)
	case ofLog && row.File == 0:
		return row.Err
	case ofLog && row.Line == 0:
		return fmt.Errorf("file %d: %w", row.File, row.Err)
	case ofLog:
		return fmt.Errorf("file %d, line %d: %w", row.File, row.Line, row.Err)
	}
	return err
}

// countingWriter numbers messages as a mmapcache.TextsWriter does, and keeps nothing.
type countingWriter struct {
	size, messages uint64
	sum            hash.Hash // of what is written; nil: none
}

func (w *countingWriter) Write(b []byte) (mmapcache.Piece, error) {
	p := mmapcache.Piece{At: w.size, N: uint32(len(b))}
	w.size += uint64(len(b))
	if w.sum != nil {
		w.sum.Write(b)
	}
	return p, nil
}

func (w *countingWriter) Message(role mmapcache.Role, lead uint8, chat, anthropic []mmapcache.Piece) (uint32, error) {
	w.messages++
	if w.sum != nil {
		fmt.Fprintln(w.sum, role, lead, chat, anthropic)
	}
	return uint32(w.messages - 1), nil
}

// probeLogs returns the digest of what samples of all formats of logs become.
func probeLogs() string {
	sum := sha256.New()
	for k := range logFormats {
		w := &countingWriter{sum: sum} // messages of a renderer have numbers from 0
		f := &logFormats[k]
		d := text.NewDataset(text.NewStore(""))
		d.Formats = []string{f.name}
		r := f.open(d, LogOptions{})
		for n, row := range f.samples() {
			fmt.Fprintln(sum, r.Row([]byte(row), text.Place{Path: "sample.jsonl", Line: n + 1, Number: n + 1}))
		}
		fmt.Fprintln(sum, r.End(), d.Finish())
		sizes := text.NewSizes(d, byteTokens{})
		fmt.Fprintln(sum, sizes.Complete())
		rendered := render.New(d, sizes, w, 0)
		for _, t := range d.Traces {
			plan, err := rendered.Plan(t, "s")
			fmt.Fprintf(sum, "%+v %v\n", plan, err)
		}
		fmt.Fprintln(sum, d.Warnings) // a map prints in the order of its keys
	}
	return hexSum(sum)
}

// byteTokens is a tokenizer whose tokens are bytes, so that a probe depends on no vocabulary.
type byteTokens struct{}

func (byteTokens) AppendIDs(ids []uint32, s string) []uint32 {
	return append(ids, make([]uint32, len(s))...)
}
