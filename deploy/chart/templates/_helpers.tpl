{{- define "sink.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* The labels of the connector's pods, which those of compact have not. */ -}}
{{- define "sink.selector" -}}
{{ include "sink.labels" . }}
app.kubernetes.io/component: sink
{{- end }}

{{- /* Variables as text. Without toJson a million would be 1e+06. */ -}}
{{- define "sink.variables" -}}
{{- range $name, $value := . }}
{{ $name }}: {{ kindIs "string" $value | ternary $value (toJson $value) | quote }}
{{- end }}
{{- end }}

{{- define "sink.pod" -}}
serviceAccountName: {{ .Release.Name }}
automountServiceAccountToken: false  # it asks nothing of Kubernetes; tokens for a cloud are mounted apart
enableServiceLinks: false  # a service named http would set HTTP_PORT
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 0
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
volumes:
  # The batches that are under way; nothing of it is needed after a restart.
  - name: scratch
    emptyDir: {sizeLimit: {{ .Values.scratchSize }}}
  {{- with .Values.extraVolumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{- define "sink.container" -}}
image: {{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
envFrom:
  - configMapRef: {name: {{ .Release.Name }}}
  {{- if .Values.secrets }}
  - secretRef: {name: {{ .Release.Name }}}
  {{- end }}
  {{- range .Values.existingSecrets }}
  - secretRef: {name: {{ . }}}
  {{- end }}
env:
  # In MB: what Spark sorts at once is fitted to it.
  - name: Quix__Deployment__Limits__Memory
    valueFrom:
      resourceFieldRef: {resource: limits.memory, divisor: 1Mi}
  {{- with .Values.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
terminationMessagePolicy: FallbackToLogsOnError  # the last lines of the log say why it ended
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
volumeMounts:
  - {name: scratch, mountPath: /tmp}
  {{- with .Values.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{- /* The container that writes the table, in a Deployment or a job. */ -}}
{{- define "sink.writer" -}}
- name: sink
  {{- include "sink.container" . | nindent 2 }}
  ports:
    - {name: http, containerPort: 8080}
  # Alive while starting, too: Java, the store, Kafka and a catalog may take a minute to answer.
  livenessProbe:
    httpGet: {path: /health/live, port: http}
    initialDelaySeconds: 10
    periodSeconds: 10
    timeoutSeconds: 5
    failureThreshold: 3
  resources: {{- toYaml .Values.resources | nindent 4 }}
{{- end }}
