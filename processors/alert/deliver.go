package alert

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/idlewatt/idlewatt/processors/alert/notify"
	"github.com/idlewatt/idlewatt/schema/bus"
	"github.com/idlewatt/idlewatt/schema/event"
)

const (
	// perHour is how many messages a channel gets in an hour; the last may be a digest.
	perHour = 5
	// giveUpAfter ends the tries to send one notice; by then a person must look.
	giveUpAfter = 24 * time.Hour
	maxBackoff  = 15 * time.Minute
	source      = "idlewatt/alert"
)

// channelLog is when a channel was sent its latest messages.
type channelLog struct {
	Sent []time.Time `json:"sent"`
}

func channelKey(name string) string { return "channel." + event.ID("channel", name, "") }

// allowance is how many more messages the channel may get now.
func (c *channelLog) allowance(now time.Time) int {
	c.Sent = slices.DeleteFunc(c.Sent, func(t time.Time) bool { return now.Sub(t) >= time.Hour })
	return perHour - len(c.Sent)
}

// item is one notice of one alert on its way.
type item struct {
	key   string
	over  bool // the alert's end, else its beginning
	group string
	Outgoing
}

func (i Instance) outgoing(over bool) *Outgoing {
	if over {
		return i.Over
	}
	return i.Fired
}

// Deliver publishes what is not published and sends what is not sent, oldest first.
func (e *Evaluator) Deliver(ctx context.Context, now time.Time) error {
	e.sending.Lock()
	defer e.sending.Unlock()
	known, err := e.keep.all(ctx)
	if err != nil {
		return err
	}
	if err := e.publish(ctx, known); err != nil {
		return err
	}
	waiting := map[string][]item{}
	for key, s := range known {
		if s.Fired == nil {
			continue
		}
		over := s.Fired.delivered() // the end is told after the beginning
		if o := s.outgoing(over); o != nil && !o.delivered() && !o.NotBefore.After(now) {
			waiting[s.Channel] = append(waiting[s.Channel], item{key: key, over: over, group: s.Group, Outgoing: *o})
		}
	}
	var errs []error
	for channel, items := range sorted(waiting) {
		errs = append(errs, e.sendChannel(ctx, channel, items, now))
	}
	return errors.Join(errs...)
}

// publish puts every stored notice on the ALERT stream; its id is the incident's, so a crash
// in between publishes no second one.
func (e *Evaluator) publish(ctx context.Context, known map[string]stored) error {
	for key, s := range sorted(known) {
		for _, over := range []bool{false, true} {
			o := s.outgoing(over)
			if o == nil || o.Published {
				continue
			}
			typ := eventType(over)
			ev, err := event.New(typ, source, key, typ+" "+o.Notice.Incident, o.Notice.At, o.Notice)
			if err != nil {
				return err
			}
			if !e.preview {
				if err := bus.Publish(ctx, e.js, ev); err != nil {
					return err
				}
			}
			err = e.mark(ctx, item{key: key, over: over, Outgoing: *o}, func(o *Outgoing) { o.Published = true })
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func eventType(over bool) string {
	if over {
		return event.TypeAlertResolved
	}
	return event.TypeAlertFiring
}

// mark changes the stored notice, if it is still the same incident's.
func (e *Evaluator) mark(ctx context.Context, it item, f func(*Outgoing)) error {
	return e.keep.change(ctx, it.key, func(i *Instance) {
		if o := i.outgoing(it.over); o != nil && o.Notice.Incident == it.Notice.Incident {
			f(o)
		}
	})
}

func (e *Evaluator) sendChannel(ctx context.Context, channel string, items []item, now time.Time) error {
	notifier := e.notifiers[channel]
	if notifier == nil {
		return fmt.Errorf("sending to channel %s: it has no notifier", channel)
	}
	log, err := e.keep.getChannel(ctx, channel)
	if err != nil {
		return err
	}
	allowed := log.allowance(now)
	for _, group := range parcel(items, allowed) {
		err := notifier.Send(ctx, compose(group, e.rules.Zone))
		if err == nil {
			log.Sent = append(log.Sent, now)
			// First the alerts, then the channel's count: a crash in between sends one message
			// more in the hour, never the same one twice.
			if err := e.settle(ctx, group, now); err != nil {
				return err
			}
			if err := e.keep.putChannel(ctx, channel, log); err != nil {
				return err
			}
			continue
		}
		if stop := e.failed(ctx, channel, group, err, now); stop != nil {
			return stop
		}
	}
	return nil
}

// parcel makes messages: one per group, oldest first, then the most expensive; when there are more than the channel
// may get, the last is a digest of all that is left.
func parcel(items []item, allowed int) [][]item {
	slices.SortFunc(items, func(a, b item) int {
		return cmp.Or(a.Notice.At.Compare(b.Notice.At), -a.Notice.compareAmount(b.Notice), cmp.Compare(a.key, b.key))
	})
	var out [][]item
	at := map[string]int{}
	for _, it := range items {
		k := fmt.Sprint(it.over, "\x00", it.group)
		if i, ok := at[k]; ok {
			out[i] = append(out[i], it)
			continue
		}
		at[k] = len(out)
		out = append(out, []item{it})
	}
	if allowed <= 0 {
		return nil
	}
	if len(out) > allowed {
		out = append(out[:allowed-1], slices.Concat(out[allowed-1:]...))
	}
	return out
}

// settle remembers that a message was taken.
func (e *Evaluator) settle(ctx context.Context, group []item, now time.Time) error {
	// The message is out: what remains must be written even while we are being stopped.
	ctx = context.WithoutCancel(ctx)
	var errs []error
	for _, it := range group {
		errs = append(errs, e.mark(ctx, it, func(o *Outgoing) { o.SentAt, o.LastError = now, "" }))
	}
	return errors.Join(errs...)
}

// failed remembers what a channel said. A notice that will never be taken is raised on
// another way: the log, the dead letters and the list of alerts. The returned error ends the
// channel's round, so that a later message does not overtake an earlier one.
func (e *Evaluator) failed(ctx context.Context, channel string, group []item, cause error, now time.Time) error {
	permanent, gone := errors.AsType[*notify.PermanentError](cause)
	var wait time.Duration
	if r, ok := errors.AsType[*notify.RetryError](cause); ok {
		wait = r.After
	}
	var errs []error
	for _, it := range group {
		final := gone || now.Sub(it.Notice.At) > giveUpAfter
		if final {
			errs = append(errs, e.raise(ctx, it, cause, now))
		}
		errs = append(errs, e.mark(ctx, it, func(o *Outgoing) {
			o.Attempts++
			o.LastError, o.Failed = cause.Error(), final
			o.NotBefore = now.Add(max(wait, backoff(o.Attempts)))
		}))
	}
	if gone {
		e.log.ErrorContext(ctx, "alert was refused for good", slog.String("channel", channel), slog.String("error", permanent.Error()))
		return errors.Join(errs...)
	}
	return errors.Join(append(errs, fmt.Errorf("sending to channel %s: %w", channel, cause))...)
}

func backoff(attempts int) time.Duration {
	return min(time.Duration(1)<<min(attempts-1, 10)*5*time.Second, maxBackoff)
}

// raise puts a notice that nobody will get among the dead letters.
func (e *Evaluator) raise(ctx context.Context, it item, cause error, now time.Time) error {
	data, err := json.Marshal(it.Notice)
	if err != nil {
		return fmt.Errorf("encoding notice: %w", err)
	}
	return bus.PutAside(ctx, e.js, bus.DeadLetter{
		Stream: bus.Alert, Refused: "alert-notify", Tries: it.Attempts + 1, Reason: cause.Error(), At: now,
		Type: eventType(it.over), Data: data,
	})
}
