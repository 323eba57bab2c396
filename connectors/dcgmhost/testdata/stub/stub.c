// A stand-in for libdcgm: two GPUs, the second with MIG and one instance. Every second read
// finds the connection lost. With -DOLD it is a library that lacks a function.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "dcgm_agent.h"
#include "dcgm_structs.h"
#include "dcgm_fields.h"

static int connected, watched, reads;

dcgmReturn_t dcgmInit(void) { return DCGM_ST_OK; }
dcgmReturn_t dcgmShutdown(void) { return DCGM_ST_OK; }
const char *errorString(dcgmReturn_t r) { return r == DCGM_ST_CONNECTION_NOT_VALID ? "The connection to DCGM is lost" : "Some error"; }

dcgmReturn_t dcgmConnect_v2(const char *addr, dcgmConnectV2Params_t *p, dcgmHandle_t *h) {
	if (p->version != dcgmConnectV2Params_version || strcmp(addr, "127.0.0.1:9") == 0) return DCGM_ST_CONNECTION_NOT_VALID;
	connected++;
	*h = 1;
	return DCGM_ST_OK;
}
dcgmReturn_t dcgmDisconnect(dcgmHandle_t h) { watched = 0; return DCGM_ST_OK; }

dcgmReturn_t dcgmGetEntityGroupEntities(dcgmHandle_t h, dcgm_field_entity_group_t g, dcgm_field_eid_t *ids, int *n, unsigned int flags) {
	ids[0] = 0, ids[1] = 1, *n = 2;
	return DCGM_ST_OK;
}
dcgmReturn_t dcgmGetGpuInstanceHierarchy(dcgmHandle_t h, dcgmMigHierarchy_v2 *m) {
	m->count = 2;
	m->entityList[0].entity.entityGroupId = DCGM_FE_GPU_I, m->entityList[0].entity.entityId = 14;
	m->entityList[0].parent.entityGroupId = DCGM_FE_GPU, m->entityList[0].parent.entityId = 1;
	m->entityList[0].info.nvmlInstanceId = 2;
	m->entityList[1].entity.entityGroupId = DCGM_FE_GPU_CI, m->entityList[1].entity.entityId = 3;
	return DCGM_ST_OK;
}
dcgmReturn_t dcgmGroupCreate(dcgmHandle_t h, dcgmGroupType_t t, const char *name, dcgmGpuGrp_t *g) { *g = 7; return DCGM_ST_OK; }
dcgmReturn_t dcgmGroupAddEntity(dcgmHandle_t h, dcgmGpuGrp_t g, dcgm_field_entity_group_t e, dcgm_field_eid_t id) { return DCGM_ST_OK; }
dcgmReturn_t dcgmFieldGroupCreate(dcgmHandle_t h, int n, unsigned short *f, const char *name, dcgmFieldGrp_t *g) { *g = 8; return DCGM_ST_OK; }
dcgmReturn_t dcgmWatchFields(dcgmHandle_t h, dcgmGpuGrp_t g, dcgmFieldGrp_t f, long long every, double age, int samples) {
	watched = g == 7 && f == 8 && every == 10000000 && age == 90;
	return watched ? DCGM_ST_OK : DCGM_ST_BADPARAM;
}
#ifndef OLD
dcgmReturn_t dcgmUpdateAllFields(dcgmHandle_t h, int wait) { return DCGM_ST_OK; }
#endif

static void number(dcgmFieldValue_v2 *v, long long n) { v->fieldType = DCGM_FT_INT64, v->value.i64 = n; }
static void real(dcgmFieldValue_v2 *v, double x) { v->fieldType = DCGM_FT_DOUBLE, v->value.dbl = x; }
static void word(dcgmFieldValue_v2 *v, const char *s) { v->fieldType = DCGM_FT_STRING; strcpy(v->value.str, s); }

static void fill(dcgmFieldValue_v2 *v, int mig, int gpu) {
	char text[64];
	switch (v->fieldId) {
	case DCGM_FI_DEV_NAME: word(v, mig ? "1g.10gb" : "NVIDIA H100 80GB HBM3"); return;
	case DCGM_FI_DEV_UUID: snprintf(text, sizeof text, "GPU-stub-%d", gpu), word(v, text); return;
	case DCGM_FI_DEV_MIG_MODE: number(v, gpu == 1); return;
	case DCGM_FI_DEV_GPU_UTIL: number(v, gpu == 1 ? DCGM_INT64_NOT_SUPPORTED : 83); return;
	case DCGM_FI_DEV_POWER_USAGE: real(v, 412.5); return;
	case DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION: number(v, 123456789); return;
	case DCGM_FI_DEV_FB_USED: number(v, mig ? 100 : 40000); return;
	case DCGM_FI_PROF_GR_ENGINE_ACTIVE: mig ? real(v, 0.25) : real(v, DCGM_FP64_BLANK); return;
	}
	v->status = DCGM_ST_NOT_WATCHED;
}

dcgmReturn_t dcgmEntitiesGetLatestValues(dcgmHandle_t h, dcgmGroupEntityPair_t *e, unsigned int n, unsigned short *f, unsigned int m, unsigned int flags, dcgmFieldValue_v2 *v) {
	if (!watched || ++reads % 2 == 0) return DCGM_ST_CONNECTION_NOT_VALID;
	for (unsigned int i = 0; i < n; i++)
		for (unsigned int j = 0; j < m; j++, v++) {
			memset(v, 0, sizeof *v);
			v->entityGroupId = e[i].entityGroupId, v->entityId = e[i].entityId, v->fieldId = f[j];
			v->ts = 1788264000000000LL; // 2026-09-01T12:00:00Z
			fill(v, e[i].entityGroupId == DCGM_FE_GPU_I, e[i].entityGroupId == DCGM_FE_GPU_I ? 1 : e[i].entityId);
		}
	return DCGM_ST_OK;
}
