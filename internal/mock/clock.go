package mock

import (
	"context"
	"time"
)

// clock tells the time and sleeps. It is safe for concurrent use.
type clock interface {
	Now() time.Time
	// Sleep returns nil after d, or the cause of ctx as soon as ctx ends.
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
