package connectors

import "context"

// Keeper is an Emitter that keeps the progress of a long pull. Ingest's is one.
type Keeper interface {
	// Save keeps a cursor in the middle of a pull, under the same rule as a returned one: all
	// facts before it have been emitted.
	Save(ctx context.Context, cur Cursor) error
	// Progress tells people, in one line, what was just done.
	Progress(ctx context.Context, line string)
}

// Keep saves how far a pull has come, so that after a crash or an error it goes on from
// there, and tells people the line unless it is empty. With an Emitter that keeps nothing it
// does nothing: the cursor that Pull returns is then the only one.
func Keep(ctx context.Context, emit Emitter, cur Cursor, line string) error {
	k, ok := emit.(Keeper)
	if !ok {
		return nil
	}
	if line != "" {
		k.Progress(ctx, line)
	}
	return k.Save(ctx, cur)
}
