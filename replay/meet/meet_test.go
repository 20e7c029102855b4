package meet

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// stopOf returns the end that an error is.
func stopOf(t *testing.T, err error) *Stop {
	t.Helper()
	var s *Stop
	require.ErrorAs(t, err, &s)
	return s
}

// Parts that meet know one id, begin each phase at one instant, and leave when all are over.
func TestMeeting(t *testing.T) {
	for _, of := range []int{1, 2, 5} {
		inWorld(t, func(w *world) {
			w.jitter(time.Millisecond)
			parts := w.meeting(w.t.Context(), of)
			for _, phase := range []string{"warmup", "profiling"} {
				began := make([]time.Time, of)
				reset := false
				each(parts, func(k int, m *Meeting) {
					require.Equal(t, parts[0].ID(), m.ID())
					time.Sleep(time.Duration(k) * 7 * time.Second) // it is ready later than the others
					require.NoError(t, m.Begin(m.Context(), phase, func(context.Context) error {
						require.Zero(t, k)
						reset = true
						return nil
					}))
					began[k] = time.Now()
				})
				require.True(t, reset)
				for _, at := range began {
					require.InDelta(t, 0, at.Sub(began[0]), float64(time.Millisecond), "part 0 and others, to the uncertainty of their clocks")
				}
			}
			require.Regexp(t, "^[0-9a-f]{16}$", parts[0].ID())
			finish(parts)
			for _, j := range parts {
				require.Nil(t, j.Stopped())
				require.Empty(t, j.Lost())
			}
		})
	}
}

// The instant at which all begin is ten round trips of the slowest ahead. A part that hears of it later than that says so, and begins.
func TestBeginIsAheadOfTheSlowestPart(t *testing.T) {
	inWorld(t, func(w *world) {
		w.delay = func() time.Duration { return 40 * time.Millisecond }
		parts := w.meeting(w.t.Context(), 3)
		begin := time.Now()
		w.begin(parts)
		const compared = exchanges * 80 * time.Millisecond
		require.InDelta(t, compared+40*time.Millisecond+800*time.Millisecond, time.Since(begin), float64(5*time.Millisecond))
		for _, said := range w.said {
			require.NotContains(t, said, "after the others")
		}
		finish(parts)
	})
	inWorld(t, func(w *world) {
		parts := w.meeting(w.t.Context(), 2)
		each(parts, func(k int, m *Meeting) {
			if k == 0 {
				time.Sleep(time.Minute)
				w.mu.Lock()
				w.delay = func() time.Duration { return 3 * time.Second } // since the clocks were compared
				w.mu.Unlock()
			}
			require.NoError(t, m.Begin(m.Context(), "profiling", nil))
		})
		finish(parts)
		require.Contains(t, w.said, "1: warning: this part begins the profiling 2.9s after the others: the network, or this machine, is slow")
	})
}

// A part that comes when the others have waited for a while is welcome, and so is one that came before part 0. The phases end by
// the last.
func TestPartsComeInAnyOrder(t *testing.T) {
	inWorld(t, func(w *world) {
		got := make(chan joined, 3)
		for k, after := range []time.Duration{time.Minute, 0, 9 * time.Minute} {
			go func() {
				time.Sleep(after)
				m, err := Join(w.t.Context(), w.options(k, 3))
				got <- joined{Meeting: m, err: err}
			}()
		}
		var parts []joined
		for range 3 {
			j := <-got
			require.NoError(t, j.err)
			parts = append(parts, j)
		}
		finish(parts)
		require.Contains(t, w.said, "1: notice: part 1/3 waits for part 0 at n0:7000, for 10m0s at most: connection refused")
		require.Contains(t, w.said, "0: notice: 2 of 3 parts are here; missing: part 2")
	})
}

// Nobody waits longer than the timeout of the meeting for a part that is missing, which is named; nor does that part for the others.
//
// Covers D-8.
func TestMissingPart(t *testing.T) {
	inWorld(t, func(w *world) {
		list := w.all(4)
		parts := w.join(w.t.Context(), list[0], list[2])
		require.Equal(t, "meeting: parts 1, 3 of 4 did not come to n0:7000 within 10m0s: start them, with the same --meet, or choose a longer --meet-timeout", parts[0].err.Error())
		s := stopOf(t, parts[1].err)
		require.Equal(t, Failed, s.How)
		require.Equal(t, "part 0/4 (n0) ended the load: parts 1, 3 of 4 did not come to n0:7000 within 10m0s", s.Error())
		for _, j := range parts {
			require.Equal(t, 10*time.Minute, j.after.Round(time.Second))
		}
		late := w.join(w.t.Context(), list[1]) // part 0 is gone
		require.ErrorContains(t, late[0].err, "meeting: part 0 did not come to n0:7000 within 10m0s: connection refused: start it")
		require.Equal(t, 10*time.Minute, late[0].after.Round(time.Second))
	})
}

// A part that comes after the load has begun is sent away at once, and the others go on.
//
// Covers D-8.
func TestLatePart(t *testing.T) {
	inWorld(t, func(w *world) {
		parts := w.meeting(w.t.Context(), 2)
		w.begin(parts)
		late := w.join(w.t.Context(), w.options(1, 2), w.options(0, 2))
		for k, host := range []string{"part 1/2 (n1)", "part 0/2 (n0)"} {
			require.Equal(t, "meeting: the load of part 0/2 (n0) began without "+host+", which came too late, or was lost: start all parts again", stopOf(t, late[k].err).Error())
			require.Less(t, late[k].after, time.Second)
		}
		for _, j := range parts {
			require.NoError(t, j.Context().Err())
		}
		finish(parts)
	})
}

// Parts that are not those of one load end all, with the names of both and the first difference. Those that come a little later
// are told, too.
//
// Covers D-8.
func TestUnequalParts(t *testing.T) {
	for name, c := range map[string]struct {
		change func(o *Options)
		says   string
	}{
		"an option": {func(o *Options) { o.Options = []Option{{"concurrency", "16"}, {"model", "other"}} },
			"part 1/3 (n1) and part 0/3 (n0) differ in concurrency: 16 and 8: give all parts the same"},
		"an option more": {func(o *Options) { o.Options = append(o.Options, Option{"trees", "3"}) },
			"part 1/3 (n1) and part 0/3 (n0) differ in trees: 3 and absent: give all parts the same"},
		"an option less": {func(o *Options) { o.Options = o.Options[:1] },
			"part 1/3 (n1) and part 0/3 (n0) differ in model: absent and m: give all parts the same"},
		"another option": {func(o *Options) { o.Options = []Option{{"concurrency", "8"}, {"preset", "x"}} },
			"part 1/3 (n1) and part 0/3 (n0) differ in the options: preset and model: give all parts the same"},
		"the dataset": {func(o *Options) { o.Dataset = "key2" },
			"part 1/3 (n1) and part 0/3 (n0) differ in the dataset: key2 and key: give all parts the same"},
		"the version": {func(o *Options) { o.Version, o.Dataset = "1.1", "key2" },
			"part 1/3 (n1) and part 0/3 (n0) differ in the version of agentx: 1.1 and 1.0: give all parts the same"},
		"the number of parts": {func(o *Options) { o.Of = 4 },
			"part 1/4 (n1) and part 0/3 (n0) differ in the number of parts: 4 and 3: give all parts the same"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				list := w.all(3)
				c.change(&list[1])
				later := make(chan joined)
				go func() {
					time.Sleep(5 * time.Second)
					later <- w.join(w.t.Context(), w.options(2, 3))[0]
				}()
				parts := append(w.join(w.t.Context(), list[0], list[1]), <-later)
				for _, j := range parts {
					s := stopOf(t, j.err)
					require.Equal(t, Unequal, s.How)
					require.Contains(t, s.Error(), "meeting: "+c.says)
					require.Less(t, j.after, 15*time.Second)
				}
			})
		})
	}
}

// Two parts of a number end all, and so does one whose number no part has.
//
// Covers D-8.
func TestNumbersOfParts(t *testing.T) {
	inWorld(t, func(w *world) {
		list := w.all(3)
		list[1].Part, list[1].Host = 2, "n9"
		for _, j := range w.join(w.t.Context(), list...) {
			require.Regexp(t, `^meeting: there are two parts 2, on n[29] and on n[29]: give each part a number of its own$`, stopOf(t, j.err).Error())
		}
	})
	m := &Meeting{o: Options{Member: Member{Of: 3}}, parts: make([]part, 3)}
	for _, number := range []int{-1, 3} {
		require.Contains(t, m.refuseLocked(&Member{Part: number, Of: 3}), "want 0 to 2")
	}
	_, err := Join(t.Context(), Options{Address: address, Member: Member{Part: 3, Of: 3}})
	require.EqualError(t, err, "meeting: part 3 of 3: want 0 to 2")
	for _, wrong := range []string{"", "n0", "n0:", "n0:0", ":"} {
		_, err = Join(t.Context(), Options{Address: wrong, Member: Member{Of: 2}})
		require.ErrorContains(t, err, "want HOST:PORT, those of part 0", wrong)
	}
}

// Two parts 0 end both, on one machine and on two, and so do their parts.
//
// Covers D-8.
func TestTwoPartsZero(t *testing.T) {
	for _, elsewhere := range []bool{false, true} {
		inWorld(t, func(w *world) {
			other := w.options(0, 3)
			other.Host = "n9"
			if elsewhere { // it listens on a machine that the address does not name
				other.Listen = func(context.Context) (net.Listener, error) { return w.listen("n9:7000") }
			}
			parts := w.join(w.t.Context(), append(w.all(3)[:2], other)...)
			for _, j := range parts {
				s := stopOf(t, j.err)
				require.Equal(t, Unequal, s.How)
				require.Regexp(t, `^meeting: there are two parts 0, on n[09] and on n[09]: give each part a number of its own$`, s.Error())
				require.Less(t, j.after, 15*time.Second)
			}
		})
	}
}

// A part with another token, or with one alone, is refused, and ends. Part 0 says so, waits on, and takes the part when it comes again
// with the right one. No token is sent.
//
// Covers D-8.
func TestWrongToken(t *testing.T) {
	const secret, wrong = "open sesame, please", "open barley"
	for _, tokens := range [][2]string{{secret, wrong}, {secret, ""}, {"", wrong}} {
		inWorld(t, func(w *world) {
			list := w.all(2)
			list[0].Token, list[1].Token = tokens[0], tokens[1]
			var carried strings.Builder
			dial := list[1].Dial
			list[1].Dial = func(ctx context.Context, address string) (net.Conn, error) {
				conn, err := dial(ctx, address)
				return heard{conn, w, &carried}, err
			}
			host := make(chan joined)
			go func() { host <- w.join(w.t.Context(), list[0])[0] }()
			synctest.Wait()
			refused := w.join(w.t.Context(), list[1])[0]
			s := stopOf(t, refused.err)
			require.Equal(t, Unequal, s.How)
			require.Equal(t, "meeting: part 0 at n0:7000 refuses this part: the parts have different values of AGENTX_MEET_TOKEN, or only one has it: give all parts the same", s.Error())
			require.Less(t, refused.after, time.Second)
			list[1].Token = tokens[0]
			right := w.join(w.t.Context(), list[1])[0]
			require.NoError(t, right.err)
			finish([]joined{<-host, right})
			require.Contains(t, w.said, "0: warning: meeting: rejected a connection that is not a part of agentx, from pipe: the parts have different values of AGENTX_MEET_TOKEN, or only one has it")
			require.Contains(t, carried.String(), `"hello"`)
			for _, text := range append(w.said, carried.String()) {
				require.NotContains(t, text, secret)
				require.NotContains(t, text, wrong)
			}
		})
	}
}

// heard is a connection whose bytes a test keeps.
type heard struct {
	net.Conn
	w   *world
	all *strings.Builder
}

func (h heard) keep(p []byte) {
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	h.all.Write(p)
}

func (h heard) Read(p []byte) (int, error) {
	n, err := h.Conn.Read(p)
	h.keep(p[:n])
	return n, err
}

func (h heard) Write(p []byte) (int, error) {
	h.keep(p)
	return h.Conn.Write(p)
}

// An impostor who does not know the token is no part 0, whatever it says.
func TestImpostorOfPartZero(t *testing.T) {
	inWorld(t, func(w *world) {
		l, err := w.listen(address)
		require.NoError(t, err)
		go func() {
			conn, _ := l.Accept()
			_ = writeMessage(conn, &message{Kind: challenge, Protocol: protocol, Nonce: newNonce()})
			_, _ = readMessage(conn, maxGreeting)
			_ = writeMessage(conn, &message{Kind: proof, Proof: newNonce()})
			_, _ = io.Copy(io.Discard, conn)
			conn.Close()
		}()
		o := w.options(1, 2)
		o.Token = "secret"
		j := w.join(w.t.Context(), o)[0]
		require.Equal(t, "meeting: part 0 at n0:7000 cannot prove that it knows the token of part 1/2 (n1): the parts have different values of AGENTX_MEET_TOKEN, or only one has it: give all parts the same", stopOf(t, j.err).Error())
		require.NoError(t, l.Close())
	})
}

// A part that is lost before the load begins ends all, and is named: while parts are missing, while they get ready, and where it is part 0.
//
// Covers D-8.
func TestPartDiesBeforeItIsReady(t *testing.T) {
	for _, dead := range []int{0, 1, 2} {
		inWorld(t, func(w *world) {
			parts := w.meeting(w.t.Context(), 3)
			begin := time.Now()
			each(parts, func(k int, m *Meeting) {
				if k == dead {
					time.Sleep(3 * time.Second)
					kill(m)
					return
				}
				require.NoError(t, m.Begin(m.Context(), "profiling", nil))
				s := stopOf(t, context.Cause(m.Context()))
				require.Equal(t, s, m.Stopped())
				require.Equal(t, Failed, s.How)
				require.Equal(t, "part "+string(rune('0'+dead))+"/3 (n"+string(rune('0'+dead))+") ended the load: it was lost before the load began: its connection ended; its own messages may say why", s.Error())
				m.Close()
			})
			require.Less(t, time.Since(begin), 15*time.Second)
		})
	}
	inWorld(t, func(w *world) { // the third part has not come
		list := w.all(3)
		host := make(chan joined)
		go func() { host <- w.join(w.t.Context(), list[0])[0] }()
		synctest.Wait()
		ctx, cancel := context.WithCancelCause(w.t.Context())
		go func() {
			time.Sleep(time.Second)
			cancel(nil)
		}()
		require.ErrorIs(t, w.join(ctx, list[1])[0].err, context.Canceled)
		j := <-host
		require.Equal(t, "part 1/3 (n1) ended the load: interrupted", stopOf(t, j.err).Error())
	})
}

// A part that is lost while the load is played is named in all others, which go on, also where it is part 0.
//
// Covers D-8.
func TestPartDiesAfterTheLoadHasBegun(t *testing.T) {
	for _, dead := range []int{0, 2} {
		for _, frozen := range []bool{false, true} {
			inWorld(t, func(w *world) {
				parts := w.meeting(w.t.Context(), 4)
				w.begin(parts)
				want := "its connection ended"
				if frozen {
					want = "it was silent for 10s"
					parts[dead].freeze()
				} else {
					kill(parts[dead].Meeting)
				}
				time.Sleep(silence + time.Second)
				each(parts, func(k int, m *Meeting) {
					if k == dead {
						return
					}
					require.NoError(t, m.Context().Err())
					require.Len(t, m.Lost(), 1)
					require.Equal(t, dead, m.Lost()[0].Number)
					require.Equal(t, parts[dead].o.Host, m.Lost()[0].Host)
					require.Equal(t, want, m.Lost()[0].Cause)
					require.NoError(t, m.Begin(m.Context(), "a later phase", nil), "without the part")
				})
				if frozen {
					kill(parts[dead].Meeting)
				}
				parts[dead].Meeting = nil
				finish(parts)
			})
		}
	}
}

// Connections that say nothing, or nothing of a part, hold up nothing, and are named.
//
// Covers D-8.
func TestStrangersOnThePort(t *testing.T) {
	inWorld(t, func(w *world) {
		list := w.all(2)
		host := make(chan joined)
		go func() { host <- w.join(w.t.Context(), list[0])[0] }()
		synctest.Wait()
		var ends []func() error
		for range maxGreetings - 1 {
			_, end := w.stranger("")
			ends = append(ends, end)
		}
		_, http := w.stranger("GET / HTTP/1.1\r\nHost: n0\r\n\r\n")
		_, huge := w.stranger("\xff\xff\xff\xff")
		_, long := w.stranger("\x00\x00\x10\x01")
		_, empty := w.stranger("\x00\x00\x00\x02{}")
		_, noJSON := w.stranger("\x00\x00\x00\x02no")
		_, torn := w.stranger("\x00\x00\x00\x02{")
		begin := time.Now()
		for _, end := range append(ends, http, huge, long, empty, noJSON, torn) {
			require.NoError(t, end(), "part 0 ends it")
		}
		require.LessOrEqual(t, time.Since(begin), 2*greetingTimeout)
		guest := w.join(w.t.Context(), list[1])[0]
		require.NoError(t, guest.err)
		finish([]joined{<-host, guest})
		said := strings.Join(w.said, "\n")
		require.Contains(t, said, `it sent "GET ", which is no message of agentx`)
		require.Equal(t, maxStrays, strings.Count(said, "a connection that is not a part"))
	})
}

// A part that reaches another program ends, and names it. One that never gets an answer waits as for a part 0 that is missing.
func TestAnotherProgramIsNoPartZero(t *testing.T) {
	inWorld(t, func(w *world) {
		l := w.serve(func(conn net.Conn) { _, _ = conn.Write([]byte("SSH-2.0-OpenSSH\r\n")) })
		parts := w.join(w.t.Context(), w.all(2)...)
		require.ErrorContains(t, parts[1].err, `meeting: n0:7000 is not part 0 of an agentx run: it sent "SSH-", which is no message of agentx: --meet names another program`)
		require.ErrorContains(t, parts[0].err, "meeting: part 0 cannot listen: bind: address already in use: another program listens there: choose another port")
		require.NoError(t, l.Close())

		l = w.serve(func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
		silent := w.join(w.t.Context(), w.options(1, 2))[0]
		require.ErrorContains(t, silent.err, "did not come to n0:7000 within 10m0s: it was silent for 10s")
		require.NoError(t, l.Close())
	})
}

// A stop from any part ends all within a second, and each knows whose it was, and why. So does an interrupt.
//
// Covers D-11.
func TestStopFromAnyPartEndsAll(t *testing.T) {
	for from := range 4 {
		for _, how := range []How{Interrupted, Failed, Wedged} {
			inWorld(t, func(w *world) {
				w.jitter(100 * time.Millisecond)
				outer, interrupt := context.WithCancel(w.t.Context())
				list := w.all(4)
				got := make([]joined, 4)
				begun := make(chan int)
				for k, o := range list {
					go func() {
						ctx := w.t.Context()
						if k == from {
							ctx = outer
						}
						m, err := Join(ctx, o)
						got[k] = joined{Meeting: m, err: err}
						begun <- k
					}()
				}
				for range list {
					<-begun
				}
				for _, j := range got {
					require.NoError(t, j.err)
				}
				w.begin(got)
				at, want := time.Now(), "a gate has failed"
				if how == Interrupted {
					want = "interrupted"
					interrupt()
				} else {
					got[from].Stop(how, want)
				}
				each(got, func(k int, m *Meeting) {
					if k == from {
						require.Nil(t, m.Stopped())
						return
					}
					<-m.Context().Done()
					require.Less(t, time.Since(at), time.Second)
					require.Equal(t, &Stop{Part: from, Of: 4, Host: list[from].Host, How: how, Reason: want}, m.Stopped())
					require.Equal(t, m.Stopped(), stopOf(t, context.Cause(m.Context())))
				})
				got[(from+1)%4].Stop(Failed, "a later one")
				finish(got)
				for k, j := range got {
					require.Empty(t, j.Lost(), "part %d", k)
				}
				interrupt()
			})
		}
	}
}

// Part 0 stays until all parts are over. Interrupted meanwhile, it ends them.
func TestPartZeroStaysForTheOthers(t *testing.T) {
	inWorld(t, func(w *world) {
		outer, interrupt := context.WithCancel(w.t.Context())
		parts := w.meeting(outer, 3)
		w.begin(parts)
		begin := time.Now()
		each(parts, func(k int, m *Meeting) {
			time.Sleep(time.Duration(k) * time.Minute)
			m.Finish(m.Context())
			if k == 0 {
				require.InDelta(t, 2*time.Minute, time.Since(begin), float64(time.Second))
			}
			m.Close()
		})
		require.Contains(t, w.said, "0: notice: this part is over; waiting until parts 1-2 are")
		interrupt()
	})
	inWorld(t, func(w *world) {
		outer, interrupt := context.WithCancel(w.t.Context())
		host := make(chan joined)
		go func() { host <- w.join(outer, w.options(0, 2))[0] }()
		guest := w.join(w.t.Context(), w.options(1, 2))[0]
		require.NoError(t, guest.err)
		parts := []joined{<-host, guest}
		w.begin(parts)
		go func() {
			time.Sleep(time.Minute)
			interrupt()
		}()
		parts[0].Finish(parts[0].Context())
		<-guest.Context().Done()
		require.Equal(t, "part 0/2 (n0) ended the load: interrupted", guest.Stopped().Error())
		finish(parts)
	})
}

// An error of what part 0 does before all begin ends all.
func TestFirstFails(t *testing.T) {
	inWorld(t, func(w *world) {
		parts := w.meeting(w.t.Context(), 2)
		broken := errors.New("no reset")
		each(parts, func(k int, m *Meeting) {
			err := m.Begin(m.Context(), "profiling", func(context.Context) error { return broken })
			if k == 0 {
				require.ErrorIs(t, err, broken)
				m.Stop(Failed, err.Error())
			} else {
				require.NoError(t, err)
				require.Equal(t, "part 0/2 (n0) ended the load: no reset", m.Stopped().Error())
			}
			m.Close()
		})
	})
}
