package main

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agentx/agentx/cmd/internal/settings"
	"github.com/agentx/agentx/convert"
	"github.com/agentx/agentx/internal/tokensource"
	"github.com/agentx/agentx/mock"
)

// mockFlags say how the mock server behaves.
type mockFlags struct {
	mock.Config
	faults        []string
	tokenizer     string
	verifyLengths bool
	log           string
}

// register adds the flags to a command.
func (f *mockFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	var names []string
	for _, k := range mock.FaultKinds {
		names = append(names, k.Name)
	}
	durationVar(flags, &f.TTFT, "ttft", 0, "time to the first token")
	durationVar(flags, &f.ITL, "itl", 0, "time from one token to the next")
	flags.Float64Var(&f.TokensPerSecond, "tokens-per-second", 0, "speed of one answer, instead of --itl; 0: no limit")
	flags.IntVar(&f.PrefillSlots, "prefill-slots", 0, "prompts that are read at a time; others wait in order; 0: no limit")
	flags.Float64Var(&f.PrefillRate, "prefill-rate", 0, "prompt tokens that a prefill slot reads per second, cached ones left out; 0: no limit")
	flags.IntVar(&f.DecodeSlots, "decode-slots", 0, "answers that get tokens at a time; others wait after their first token; 0: no limit")
	durationVar(flags, &f.ITLGrowth, "itl-growth", 0, "what each further answer adds to the time from one token to the next")
	flags.IntVar(&f.CacheBlocks, "cache-blocks", 0, fmt.Sprintf("blocks of %d tokens that the prefix cache holds; 0: %d; negative: no cache", mock.BlockTokens, mock.DefaultCacheBlocks))
	flags.StringArrayVar(&f.faults, "fault", nil, "KIND:RATE, a fault and the share of requests that get it (repeatable): "+strings.Join(names, ", "))
	flags.Int64Var(&f.Seed, "seed", 0, "decides which requests get a fault")
	flags.StringVar(&f.log, "log", "", "file that gets a line of JSON for each request that was answered: its X-Request-ID, when it arrived, when its first and last token were there, its tokens")
	flags.StringVar(&f.tokenizer, "tokenizer", convert.DefaultTokenizer, "tokenizer of --verify-lengths, as agentx help tokenize names them")
	flags.BoolVar(&f.verifyLengths, "verify-lengths", false, "encode every text prompt again: usage is exact, and GET /stats shows the drift (slow)")
}

// config makes the configuration of a mock of the flags.
func (f *mockFlags) config(cmd *cobra.Command) (mock.Config, error) {
	c := f.Config
	for _, text := range f.faults {
		fault, err := mock.ParseFault(text)
		if err != nil {
			return c, usageError{fmt.Errorf("%s %w", settings.Named(cmd.Flags().Lookup("fault")), err)}
		}
		c.Faults = append(c.Faults, fault)
	}
	if f.verifyLengths {
		if err := tokensource.Check(f.tokenizer); err != nil {
			return c, usageError{fmt.Errorf("%s: %w", shown(cmd, "tokenizer", f.tokenizer), err)}
		}
		t, err := loadTokenizer(cmd, f.tokenizer)
		if err != nil {
			return c, err
		}
		c.CountTokens = func(text []byte) int { return len(t.Encode(string(text))) }
	}
	if err := c.Validate(); err != nil {
		return c, usageError{err}
	}
	return c, nil
}

func newMock() *cobra.Command {
	var f mockFlags
	var listen string
	kinds := &strings.Builder{}
	for _, k := range mock.FaultKinds {
		fmt.Fprintf(kinds, "  %-18s %s\n", k.Name, k.Doc)
	}
	cmd := &cobra.Command{
		Use:   "mock",
		Short: "Serve the OpenAI API without a model: for tests and demos",
		Long: `Serve OpenAI's chats, completions (text or token ids) and Responses, and Anthropic's Messages, without a
model: streamed or not, with set times and a prefix cache. The first line on standard output says where
it listens. GET /stats returns counters.

With --prefill-slots, --prefill-rate, --decode-slots or --itl-growth it has a capacity, and requests wait for one
another. A prompt holds a prefill slot for TTFT + UNCACHED / RATE seconds; then its first token is there.
The other tokens come from one batch of at most --decode-slots answers, which gives each of n answers a
token every ITL + (n - 1) x GROWTH. What a load of n requests in flight gets follows:

  time to the first token, n beyond S prefill slots   n / S x (TTFT + UNCACHED / RATE)
  requests per second at most                         S / (TTFT + UNCACHED / RATE)
  most answers with an inter-token latency below X    1 + (X - ITL) / GROWTH

Kinds of --fault KIND:RATE, with a rate from 0 to 1:

` + kinds.String(),
		Example: "  agentx mock --listen 127.0.0.1:8000 --ttft 200ms --itl 10ms\n  agentx mock --prefill-slots 4 --ttft 50ms --itl 5ms --itl-growth 250us\n  agentx mock --fault status=503:0.1 --fault stall:0.01",
		Args:    checkArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := f.config(cmd)
			if err != nil {
				return err
			}
			if f.log != "" {
				log, err := os.Create(f.log)
				if err != nil {
					return fmt.Errorf("--log: %w", err)
				}
				defer log.Close()
				config.Log = log
			}
			if _, err := strconv.Atoi(listen); err == nil {
				listen = "127.0.0.1:" + listen
			}
			l, err := net.Listen("tcp", listen)
			if err != nil {
				return hintError{fmt.Errorf("mock: --listen: %w", err), "--listen 127.0.0.1:0, which takes a free port"}
			}
			fmt.Fprintf(cmd.OutOrStdout(), "listening http://%s\n", l.Addr())
			return mock.New(config).Serve(cmd.Context(), l)
		},
	}
	f.register(cmd)
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "HOST:PORT, or a port of this machine alone; port 0 takes a free one")
	return cmd
}
