package main

import (
	"context"
	"fmt"
	"os"
	"text/tabwriter"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idlewatt/idlewatt/deploy/local"
	"github.com/idlewatt/idlewatt/processors/alert"
	"github.com/idlewatt/idlewatt/processors/alert/notify"
	"github.com/idlewatt/idlewatt/processors/alert/notify/slack"
)

type alertCmd struct {
	Check   alertCheckCmd   `cmd:"" help:"Judge the rules once and print what would be sent; nothing is sent. Example: idlewatt alert check -c idlewatt.yaml"`
	Test    alertTestCmd    `cmd:"" help:"Send a test message to a channel. Example: idlewatt alert test -c idlewatt.yaml gpu-waste"`
	History alertHistoryCmd `cmd:"" help:"List alerts that are remembered. Example: idlewatt alert history"`
}

type alertCheckCmd struct {
	Config string `short:"c" default:"idlewatt.yaml" help:"Configuration file." placeholder:"FILE"`
	At     string `help:"Judge as of this time (RFC 3339) instead of now." placeholder:"TIME"`
}

func (c *alertCheckCmd) Run(e *env) (err error) {
	l, err := loadConfig(c.Config)
	if err != nil {
		return err
	}
	if l.alerts == nil {
		return usagef("%s has no alerts section", c.Config)
	}
	at := e.now()
	if c.At != "" {
		if at, err = time.Parse(time.RFC3339, c.At); err != nil {
			return usagef("--at %q: want a time such as 2026-10-17T07:00:00Z", c.At)
		}
	}
	e.useData(l)
	a, err := e.open(local.Options{})
	if err != nil {
		return err
	}
	defer closing(a, &err)
	return a.preview(*l.alerts, at)
}

// preview judges rules at a moment as if no alert had ever been sent, and prints the messages.
func (a *app) preview(rules alert.Rules, at time.Time) error {
	kept := &keeper{}
	notifiers := map[string]notify.Notifier{}
	for name := range rules.Channels {
		notifiers[name] = kept
	}
	bucket := fmt.Sprintf("idlewatt_preview_%d", a.now().UnixNano())
	if _, err := a.js.CreateKeyValue(a.ctx, jetstream.KeyValueConfig{Bucket: bucket, Storage: jetstream.MemoryStorage, TTL: time.Hour}); err != nil {
		return fmt.Errorf("making room for a preview: %w", err)
	}
	defer a.js.DeleteKeyValue(context.WithoutCancel(a.ctx), bucket) //nolint:errcheck // it is in memory and ends by itself
	ev, err := alert.New(a.ctx, alert.Options{
		JS: a.js, Facts: alert.NewClickHouse(a.db.Conn), Rules: rules, Notifiers: notifiers, Now: a.now, Log: a.log, Preview: bucket,
	})
	if err != nil {
		return err
	}
	if err := ev.Evaluate(a.ctx, at); err != nil {
		return fmt.Errorf("judging the rules: %w", err)
	}
	for _, m := range kept.messages {
		fmt.Fprintf(a.out, "  | %s\n", m.Heading)
		for _, s := range m.Sections {
			printSection(a, s)
		}
	}
	if len(kept.messages) == 0 {
		fmt.Fprintln(a.out, "nothing to send")
	}
	return nil
}

type alertTestCmd struct {
	Config  string `short:"c" default:"idlewatt.yaml" help:"Configuration file." placeholder:"FILE"`
	Channel string `arg:"" help:"Name of the channel."`
}

func (c *alertTestCmd) Run(e *env) error {
	l, err := loadConfig(c.Config)
	if err != nil {
		return err
	}
	if l.alerts == nil {
		return usagef("%s has no alerts section", c.Config)
	}
	ch, ok := l.alerts.Channels[c.Channel]
	if !ok {
		return usagef("%s has no channel %q", c.Config, c.Channel)
	}
	n, err := slack.Open(ch.Slack, os.Getenv, e.now)
	if err != nil {
		return usageError{err}
	}
	ctx, cancel := context.WithTimeout(e.ctx, time.Minute)
	defer cancel()
	if err := n.Send(ctx, notify.Message{
		ID: fmt.Sprint("test-", e.now().UnixNano()), Heading: "idlewatt: test message",
		Sections: []notify.Section{{Text: "This channel works. Idle GPUs and budgets will show up here."}},
	}); err != nil {
		return fmt.Errorf("sending to %s: %w", c.Channel, err)
	}
	_, err = fmt.Fprintf(e.out, "%s took the message\n", c.Channel)
	return err
}

type alertHistoryCmd struct{}

func (c *alertHistoryCmd) Run(e *env) (err error) {
	a, err := e.open(local.Options{})
	if err != nil {
		return err
	}
	defer closing(a, &err)
	list, err := alert.Remembered(a.ctx, a.js)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		_, err = fmt.Fprintln(a.out, "no alerts")
		return err
	}
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "RULE\tSUBJECT\tSTATE\tSINCE\tFIRED\tSENT\tHELD")
	for _, i := range list {
		sent := "-"
		if i.Fired != nil && !i.Fired.SentAt.IsZero() {
			sent = i.Fired.SentAt.UTC().Format(time.RFC3339)
		}
		fired := "-"
		if !i.FiredAt.IsZero() {
			fired = i.FiredAt.UTC().Format(time.RFC3339)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", i.Rule, i.Subject, i.State, i.Since.UTC().Format(time.RFC3339), fired, sent, i.Held)
	}
	return w.Flush()
}
