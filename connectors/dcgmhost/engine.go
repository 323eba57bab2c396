//go:build dcgm

package dcgmhost

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/NVIDIA/go-dcgm/pkg/dcgm"
)

// go-dcgm has one connection per process. The first source that connects has it.
var process struct {
	sync.Mutex
	address string // empty: nobody has it
}

// engine asks a host engine that runs already. It starts none: a second one could take the
// profiling counters from the one that an exporter depends on.
type engine struct {
	config   Config
	pinned   bool
	cleanup  func() // nil: not connected
	entities []dcgm.GroupEntityPair
}

func open(c Config) (Engine, error) { return &engine{config: c}, nil }

// Read does not heed ctx while DCGM works: its calls end by DCGM's own limits.
func (e *engine) Read(ctx context.Context) ([]Device, error) {
	process.Lock()
	defer process.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if process.address != "" && process.address != e.config.Address {
		return nil, fmt.Errorf("this process is connected to the host engine at %s, and can be to one only: run another idlewatt there, or dcgm-exporter", process.address)
	}
	devices, err := e.read()
	if err != nil {
		e.disconnect()
		return nil, err
	}
	return devices, nil
}

func (e *engine) disconnect() {
	if e.cleanup != nil {
		e.cleanup()
		e.cleanup = nil
	}
	if process.address == e.config.Address {
		process.address = ""
	}
}

func (e *engine) read() ([]Device, error) {
	if err := e.connect(); err != nil {
		return nil, err
	}
	all, instances, err := entities()
	if err != nil {
		return nil, err
	}
	if !slices.Equal(all, e.entities) { // at first, and when MIG was carved anew
		if len(e.entities) > 0 {
			e.disconnect() // takes the watches with it
			if err := e.connect(); err != nil {
				return nil, err
			}
		}
		if len(all) == 0 {
			return nil, nil
		}
		if err := e.watch(all); err != nil {
			return nil, err
		}
		e.entities = all
	}
	wanted := append(Fields(false), Fields(true)...)
	values, err := dcgm.EntitiesGetLatestValues(all, shorts(append(wanted, FieldName, FieldUUID, FieldMIGMode)), 0)
	if err != nil {
		return nil, fmt.Errorf("reading fields: %w", err)
	}
	return sorted(values, all, instances), nil
}

func (e *engine) connect() error {
	if e.cleanup != nil {
		return nil
	}
	if !e.pinned {
		if err := pinLibrary(); err != nil {
			return err
		}
		e.pinned = true
	}
	socket := "0"
	if e.config.socket() {
		socket = "1"
	}
	cleanup, err := dcgm.Init(dcgm.Standalone, e.config.Address, socket)
	if err != nil { // after a failed Init nothing else may be called
		return err
	}
	e.cleanup, e.entities = cleanup, nil
	process.address = e.config.Address
	return nil
}

// entities are the GPUs and MIG instances that the host engine has now.
func entities() ([]dcgm.GroupEntityPair, map[uint]dcgm.MigHierarchyInfo_v2, error) {
	gpus, err := dcgm.GetEntityGroupEntities(dcgm.FE_GPU)
	if err != nil {
		return nil, nil, fmt.Errorf("listing GPUs: %w", err)
	}
	// Without the hierarchy an instance could not be told from its device.
	tree, err := dcgm.GetGpuInstanceHierarchy()
	if err != nil {
		return nil, nil, fmt.Errorf("listing MIG instances: %w", err)
	}
	var all []dcgm.GroupEntityPair
	for _, g := range gpus {
		all = append(all, dcgm.GroupEntityPair{EntityGroupId: dcgm.FE_GPU, EntityId: g})
	}
	instances := map[uint]dcgm.MigHierarchyInfo_v2{}
	for _, x := range tree.EntityList[:min(tree.Count, uint(len(tree.EntityList)))] {
		if x.Entity.EntityGroupId == dcgm.FE_GPU_I {
			instances[x.Entity.EntityId] = x
			all = append(all, x.Entity)
		}
	}
	return all, instances, nil
}

// watch has the host engine read our fields. The watches end with the connection.
func (e *engine) watch(all []dcgm.GroupEntityPair) error {
	fields := append(Fields(false), FieldName, FieldUUID, FieldMIGMode)
	if e.config.Profiling {
		fields = append(fields, Fields(true)...)
	}
	group, err := dcgm.CreateGroup("idlewatt-" + rand.Text())
	if err != nil {
		return err
	}
	for _, x := range all {
		if err := dcgm.AddEntityToGroup(group, x.EntityGroupId, x.EntityId); err != nil {
			return err
		}
	}
	ids, err := dcgm.FieldGroupCreate("idlewatt-"+rand.Text(), shorts(fields))
	if err != nil {
		return err
	}
	if err := dcgm.WatchFieldsWithGroupEx(ids, group, e.config.Interval.Microseconds(), e.config.MaxAge.Seconds(), 0); err != nil {
		if e.config.Profiling {
			err = errors.Join(err, errors.New("another client may hold the profiling counters: set profiling: false"))
		}
		return fmt.Errorf("watching fields: %w", err)
	}
	return nil
}

func shorts(fields []Field) []dcgm.Short {
	out := make([]dcgm.Short, len(fields))
	for i, f := range fields {
		out[i] = dcgm.Short(f)
	}
	return out
}

// entity is what the engine said of one of its entities.
type entity struct {
	words  map[Field]string
	mig    bool
	values []Value
}

// sorted puts values in their places: a GPU with MIG enabled is its instances, and they have
// the facts of the whole device from it.
func sorted(values []dcgm.FieldValue_v2, all []dcgm.GroupEntityPair, instances map[uint]dcgm.MigHierarchyInfo_v2) []Device {
	by := map[dcgm.GroupEntityPair]*entity{}
	for _, x := range all {
		by[x] = &entity{words: map[Field]string{}}
	}
	for _, v := range values {
		if x := by[dcgm.GroupEntityPair{EntityGroupId: v.EntityGroupId, EntityId: v.EntityId}]; x != nil {
			x.take(v)
		}
	}
	partitioned := map[dcgm.GroupEntityPair]bool{}
	for _, i := range instances {
		partitioned[i.Parent] = true
	}
	var out []Device
	for _, pair := range all {
		x := by[pair]
		if pair.EntityGroupId == dcgm.FE_GPU {
			if !x.mig && !partitioned[pair] {
				out = append(out, Device{UUID: x.words[FieldUUID], Model: x.words[FieldName], GPU: pair.EntityId, Values: x.values})
			}
			continue
		}
		i := instances[pair.EntityId]
		parent := by[i.Parent]
		if parent == nil {
			continue
		}
		own := slices.DeleteFunc(x.values, func(v Value) bool { return v.Field.OfParent() })
		facts := slices.DeleteFunc(slices.Clone(parent.values), func(v Value) bool { return !v.Field.OfParent() })
		out = append(out, Device{
			UUID: parent.words[FieldUUID], Model: parent.words[FieldName], GPU: i.Parent.EntityId, Profile: x.words[FieldName],
			Instance: strconv.FormatUint(uint64(i.Info.NvmlInstanceId), 10), Values: append(own, facts...),
		})
	}
	return out
}

func (x *entity) take(v dcgm.FieldValue_v2) {
	f := Field(v.FieldId)
	switch out := (Value{Field: f, Status: v.Status, At: time.UnixMicro(v.Ts)}); {
	case f == FieldName || f == FieldUUID:
		if v.Status == 0 && v.StringValue != nil && !strings.HasPrefix(*v.StringValue, "<<<") { // DCGM's blanks of text
			x.words[f] = *v.StringValue
		}
	case f == FieldMIGMode:
		x.mig = v.Status == 0 && v.Int64() == 1
	case v.FieldType == dcgm.DCGM_FT_DOUBLE:
		out.Number = v.Float64()
		x.values = append(x.values, out)
	case v.FieldType == dcgm.DCGM_FT_INT64:
		out.Number = float64(v.Int64())
		x.values = append(x.values, out)
	default: // no value has no type
		if out.Status == 0 {
			out.Status = -1
		}
		x.values = append(x.values, out)
	}
}
