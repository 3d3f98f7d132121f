"""Interim maximum-flow kernel over the dense layered graph (Dinic)."""
# ruff: noqa
# mypy: ignore-errors
import numpy as np, numba as nb
@nb.njit(cache=True)
def solve2(A, l, s, b, R, Bk, level, ptr, st_node, st_want, st_got, queue, eps, ub):
    """A: caps; R[k]: residual forward caps (k+1,i)->(k,j) for k=1..l-2 ; Bk[k]: flow stored transposed [j,i] for backward; supplies sup[j], demands dem[k]"""
    n=A.shape[1]
    # internal layers 1..l-1. supplies at layer l-1: A[l-1,s,:], demand at layer 1: b
    for k in range(1,l-1):
        for i in range(n):
            for j in range(n):
                R[k,i,j]=A[k,i,j]; Bk[k,j,i]=0.0
    sup=A[l-1,s].copy(); dem=b.copy()
    total=0.0; phases=0
    top=l-1
    while True:
        # levels: distance to sink through residual graph; layer-1 nodes with dem>eps have level 1
        for k in range(1,l):
            for i in range(n): level[k,i]=0
        qh=0;qt=0
        for i in range(n):
            if dem[i]>eps: level[1,i]=1; queue[qt]=n+i; qt+=1
        best=1<<30
        while qh<qt:
            v=queue[qh]; qh+=1; k=v//n; j=v-k*n; lv=level[k,j]
            if lv>=best: break
            if k==top and sup[j]>eps and lv<best: best=lv
            if k<top:
                for i in range(n):
                    if level[k+1,i]==0 and R[k,i,j]>eps: level[k+1,i]=lv+1; queue[qt]=(k+1)*n+i; qt+=1
            if k>1:
                for i in range(n):
                    if level[k-1,i]==0 and Bk[k-1,i,j]>eps: level[k-1,i]=lv+1; queue[qt]=(k-1)*n+i; qt+=1
        if best==1<<30: break
        phases+=1
        for k in range(1,l):
            for i in range(n): ptr[k,i]=0
        pushed=0.0
        for j0 in range(n):
            if sup[j0]<=eps or level[top,j0]!=best: continue
            # DFS pushing amounts
            sp=0; st_node[0]=top*n+j0; st_want[0]=sup[j0]; st_got[0]=0.0
            while True:
                v=st_node[sp]; k=v//n; i=v-k*n; want=st_want[sp]-st_got[sp]
                lv=level[k,i]; ret=False
                if want<=eps: ret=True
                elif k==1 and lv==1:
                    d=min(want,dem[i]); dem[i]-=d; st_got[sp]+=d; ret=True
                    if dem[i]<=eps: level[1,i]=-1
                else:
                    p=ptr[k,i]; adv=False
                    if p<n:
                        if k>1:
                            while p<n:
                                if level[k-1,p]==lv-1:
                                    r=R[k-1,i,p]
                                    if r>eps: adv=True; w=(k-1)*n+p; break
                                p+=1
                        else: p=n
                    if not adv and p>=n:
                        if k<top:
                            while p<2*n:
                                if level[k+1,p-n]==lv-1:
                                    r=Bk[k,i,p-n]
                                    if r>eps: adv=True; w=(k+1)*n+p-n; break
                                p+=1
                        else: p=2*n
                    ptr[k,i]=p
                    if adv:
                        sp+=1; st_node[sp]=w; st_want[sp]=min(want,r); st_got[sp]=0.0; continue
                    else:
                        level[k,i]=-1; ret=True
                if ret:
                    g=st_got[sp]; full=st_want[sp]-g<=eps
                    sp-=1
                    if sp<0:
                        sup[j0]-=g; pushed+=g; break
                    u=st_node[sp]; ku=u//n; iu=u-ku*n; p=ptr[ku,iu]
                    if p<n:
                        R[ku-1,iu,p]-=g; Bk[ku-1,p,iu]+=g
                        if R[ku-1,iu,p]<=eps or not full: ptr[ku,iu]=p+1
                    else:
                        q=p-n
                        Bk[ku,iu,q]-=g; R[ku,q,iu]+=g
                        if Bk[ku,iu,q]<=eps or not full: ptr[ku,iu]=p+1
                    st_got[sp]+=g
        total+=pushed
        if total>=ub-1e-12: break
        if pushed<=0: break
    return total,phases
@nb.njit(cache=True)
def one(A,l,srcs,t,out,eps):
    n=A.shape[1]
    R=np.empty((max(l-1,1),n,n)); Bk=np.empty((max(l-1,1),n,n)); level=np.empty((l,n),np.int32); ptr=np.empty((l,n),np.int32)
    q=np.empty(l*n+1,np.int32); a=np.empty(2*l*n,np.int32); w=np.empty(2*l*n); g=np.empty(2*l*n)
    b=A[0,:,t].copy(); m=b.sum(); m=min(m,1.0)
    for x in range(len(srcs)):
        v,p=solve2(A,l,srcs[x],b,R,Bk,level,ptr,a,w,g,q,eps,m); out[x,t]=v
@nb.njit(cache=True,parallel=True)
def run2(A,l,srcs,eps):
    n=A.shape[1]; out=np.zeros((len(srcs),n))
    if l==1:
        for x in range(len(srcs)): out[x]=A[0,srcs[x]]
        return out
    for t in nb.prange(n): one(A,l,srcs,t,out,eps)
    return out
