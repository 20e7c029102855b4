package main

import (
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentx/agentx/convert"
	"github.com/agentx/agentx/internal/mock"
	"github.com/agentx/agentx/internal/tokensource"
)

// mockFlags say how the mock server behaves.
type mockFlags struct {
	ttft, itl       time.Duration
	tokensPerSecond float64
	cacheBlocks     int
	faults          []string
	seed            int64
	tokenizer       string
	verifyLengths   bool
}

func (f *mockFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	durationVar(flags, &f.ttft, "ttft", 0, "time to the first token")
	durationVar(flags, &f.itl, "itl", 0, "time from one token to the next")
	flags.Float64Var(&f.tokensPerSecond, "tokens-per-second", 0, "speed of one answer, instead of --itl; 0: no limit")
	flags.IntVar(&f.cacheBlocks, "cache-blocks", 0, fmt.Sprintf("blocks of %d tokens that the prefix cache holds; 0: %d; negative: no cache", mock.BlockTokens, mock.DefaultCacheBlocks))
	flags.StringArrayVar(&f.faults, "fault", nil, "KIND:RATE, a fault and the share of requests that get it (repeatable); see above")
	flags.Int64Var(&f.seed, "seed", 0, "decides which requests get a fault")
	flags.StringVar(&f.tokenizer, "tokenizer", convert.DefaultTokenizer, "tokenizer of --verify-lengths, as agentx help tokenize names them")
	flags.BoolVar(&f.verifyLengths, "verify-lengths", false, "encode every text prompt again: usage is exact, and GET /stats shows the drift (slow)")
}

// config returns the configuration that the flags say.
func (f *mockFlags) config(cmd *cobra.Command) (mock.Config, error) {
	c := mock.Config{TTFT: f.ttft, ITL: f.itl, TokensPerSecond: f.tokensPerSecond, CacheBlocks: f.cacheBlocks, Seed: f.seed}
	for _, text := range f.faults {
		fault, err := mock.ParseFault(text)
		if err != nil {
			return c, usageError{fmt.Errorf("--fault %w", err)}
		}
		c.Faults = append(c.Faults, fault)
	}
	if f.verifyLengths {
		if err := tokensource.Check(f.tokenizer); err != nil {
			return c, usageError{fmt.Errorf("%s: %w", flagText("tokenizer", f.tokenizer), err)}
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
		Long: `Serve the OpenAI API without a model: chat and text completions (text or token ids), streamed or
not, with set times and a prefix cache. The first line on standard output says where it listens.
GET /stats returns counters.

Kinds of --fault KIND:RATE, with a rate from 0 to 1:

` + kinds.String(),
		Example: "  agentx mock --listen 127.0.0.1:8000 --ttft 200ms --itl 10ms\n  agentx mock --fault status=503:0.1 --fault stall:0.01",
		Args:    checkArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := f.config(cmd)
			if err != nil {
				return err
			}
			l, err := net.Listen("tcp", listen)
			if err != nil {
				return fmt.Errorf("mock: %w", err)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "listening http://%s\n", l.Addr())
			return mock.New(config).Serve(cmd.Context(), l)
		},
	}
	f.register(cmd)
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "address; port 0 takes a free one")
	return cmd
}
