package mock

import (
	"context"
	"time"
)

// A Clock tells the time and spends it. It must be safe for concurrent use.
type Clock interface {
	Now() time.Time
	// Sleep returns nil after d, or the reason of ctx as soon as ctx ends.
	Sleep(ctx context.Context, d time.Duration) error
}

type machineClock struct{}

func (machineClock) Now() time.Time { return time.Now() }

func (machineClock) Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// tokenInterval is the time between two tokens of an answer.
func tokenInterval(config Config) time.Duration {
	if config.ITL == 0 && config.TokensPerSecond > 0 {
		return time.Duration(float64(time.Second) / config.TokensPerSecond)
	}
	return config.ITL
}
